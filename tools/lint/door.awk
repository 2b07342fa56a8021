# door.awk - calls of plugins that do not go through the door (host/call/). First the headers of the ABI, for the names of its
# functions, then the sources to be looked at: awk -f door.awk sdk/include/cadenza/processor.h ... host/run/stages/stages.c ...
# A statement is looked at whole, however many lines it has. Prints file:line: what, and fails if there is one. With
# -v list=1 it prints the names. Tried by tests/tools/door/run.sh.
BEGIN {
    n = split("cdz_processor cdz_criterion cdz_strategy cdz_drafter cdz_observer cdz_loader cdz_scheduler cdz_form_api cdz_phase_api " \
              "cdz_state_api cdz_companion_api cdz_steer_api cdz_constrained_api", structs, " ")
    for (i = 1; i <= n; i++) plugin_side[structs[i]] = 1
}

function offend(what) {
    print FILENAME ":" start ": " what ": " substr(statement, 1, 90)
    bad = 1
}

function look() {
    if (names == "") return
    if (statement ~ "(->|\\.)(" names ")\\(([^;]*[^a-z_])?step([^a-z_]|$)")
        offend("a plugin is called outside of host/call/")
    else if (statement ~ /(->|\.)(apply|accept|idle|propose|judged|hand_over|edits)\(/) # names of no other table
        offend("a plugin is called outside of host/call/")
    if (statement ~ "(->|\\.)extension\\(" && statement !~ "host->extension\\(")
        offend("a plugin is asked for an extension outside of host/call/")
    if (statement ~ /cdz_get_(form|phase|state|companion|steer|constrained)_api[ ]*\(/)
        offend("a plugin is asked for an extension outside of host/call/")
    if (statement ~ /\(\*[^()]*\)\( ?(cdz_decoder \*[a-z]*, ?)?const cdz_step \*/ ||
        statement ~ /cdz_(create|idle|begin|accept|end)_fn/)
        offend("a plugin's function is taken outside of host/call/")
    if (statement ~ /cdz_call_(enter|leave)[ ]*\(/) offend("the door is entered outside of host/call/")
}

# The headers: functions of the structs above.
FILENAME ~ /^sdk\/include\// {
    if (match($0, /^typedef struct [a-z_]+ \{/)) inside = plugin_side[$3]
    if (/^}/) inside = 0
    if (inside && match($0, /\(\*[a-z_]+\)\(/)) {
        name = substr($0, RSTART + 2, RLENGTH - 4)
        if (!known[name]++) names = names (names == "" ? "" : "|") name
    }
    next
}

FNR == 1 { statement = ""; comment = 0 }
{
    line = $0
    gsub(/"([^"\\]|\\.)*"/, "\"\"", line)
    gsub(/\/\*[^*]*\*\//, "", line)
    if (comment && sub(/^.*\*\//, "", line)) comment = 0
    if (comment) next
    if (sub(/\/\*.*$/, "", line)) comment = 1
    gsub(/[ \t]+/, " ", line)
    if (line ~ /^ ?#/) next
    while (match(line, /[;{}]/)) {
        if (statement == "") start = FNR
        statement = statement substr(line, 1, RSTART)
        look()
        statement = ""
        line = substr(line, RSTART + 1)
    }
    if (line !~ /^ *$/) {
        if (statement == "") start = FNR
        statement = statement line " "
    }
}
END {
    if (split(names, all, "|") < 20) {
        print "door.awk: the headers have only these functions: " names
        bad = 1
    }
    if (list) for (i in all) print all[i]
    exit bad
}
