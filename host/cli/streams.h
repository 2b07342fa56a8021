/* streams.h - standard input, output and error of the program: there at its beginning, told of at its end. */
#ifndef CDZ_HOST_CLI_STREAMS_H
#define CDZ_HOST_CLI_STREAMS_H

/* Call first. A stream that was closed is taken up by what fails when it is used, so that no file that is opened later
 * gets its number; and a reader that goes away ends the program by SIGPIPE, whatever the program that started it did. */
void cdz_cli_begin_streams(void);

/* Call last, with the exit status so far: what could not be written to standard output is one sentence and a failure. */
int cdz_cli_end_streams(int status);

#endif
