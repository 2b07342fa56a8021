/* child.h - what ends a process: for tests of promises whose breach ends one. */
#ifndef CDZ_TESTS_SUPPORT_CHILD_H
#define CDZ_TESTS_SUPPORT_CHILD_H

/* The signal that ends a child which does this; 0: none did. What it says on standard error is not shown. */
int signal_of(void (*misdeed)(void));

#endif
