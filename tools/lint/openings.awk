# Files of more than 60 lines that do not open with what they own: a comment on the first line, which says more than where
# its header is. Prints file:line.
FNR == 1 { judge(); file = FILENAME; n = 0; open = /^\/\*/; text = "" }
{
    n = FNR
    if (open) {
        text = text " " $0
        if (/\*\//) open = 0
    }
}
END { judge() }
function judge() {
    if (file == "" || n <= 60) return
    sub(/^ *\/\* *[a-z0-9_]+\.[ch] - /, "", text)
    gsub(/see [a-z0-9_\/]+\.h[^.;:]*[.;:]?|\*\/| \* /, " ", text)
    if (split(text, words, " ") < 4) print file ":1: does not say what the file owns: " (text ~ /[^ ]/ ? "\"" text "\"" : "no opening comment, or nothing but its header's name")
}
