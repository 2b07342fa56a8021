#!/usr/bin/env bash
# Builds the documentation as a static site that needs no server: site.sh OUT. Needs lowdown.
#
# Pages keep their places in the tree, as .html; a source file that a page links to becomes a page too. What is linked must be
# there: a dead link, or a section that its page lacks, is an error.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=$1
mkdir -p "$out"
rm -rf "${out:?}"/*

mapfile -t pages < <(git ls-files --cached --others --exclude-standard README.md CONTRIBUTING.md CHANGELOG.md SECURITY.md \
    'docs/*.md' 'plugins/*/README.md' sdk/README.md examples/notebooks/README.md python/tests/PORTED.md tests/golden/README.md)

up() { # path: the way from its folder to the site's root
    local depth=${1//[^\/]/}
    printf '%s' "${depth//\//..\/}"
}

title_of() { sed -n 's/^# *//p;T;q' "$1" | head -1 | tr -d '`*'; }

# The names of files stand in the fence's line, which a page would not show.
with_names() {
    awk '/^```[a-z]+ [A-Za-z0-9_.\/-]+\.[a-z]+$/ { print "**`" $2 "`**\n"; print "```" substr($1, 4); next }
         /^```console / { print "```console"; next } { print }' "$1"
}

# No typographic quotes and dashes: what is written is often typed by the reader.
to_html() { lowdown -Thtml --out-no-smarty; }

# Links between files become links between pages.
relink() {
    sed -E 's,href="([^":#]+)\.(md|c|h|hpp|cpp|py|lua|ini|txt|inc)(#[^"]*)?",href="\1.\2.html\3",g; s,\.md\.html,.html,g'
}

navigation=$(sed -e '/^# /d' docs/README.md | to_html)

page() { # source html-body target title
    local source=$1 body=$2 target=$3 title=$4 root
    root=$(up "$target")
    mkdir -p "$out/$(dirname "$target")"
    {
        printf '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        printf '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        printf '<title>%s - Cadenza</title>\n<link rel="stylesheet" href="%ssite.css">\n' "$title" "$root"
        printf '<script defer src="%spages.js"></script><script defer src="%ssearch.js"></script>\n' "$root" "$root"
        printf '<body data-root="%s">\n<nav>\n<a class="home" href="%sindex.html">Cadenza</a>\n' "$root" "$root"
        printf '<input type="search" placeholder="Search" aria-label="Search the pages">\n<div id="found"></div>\n'
        sed -E "s,href=\"([^\":#.][^\":]*|\.\./[^\":]*)\",href=\"${root}docs/\1\",g" <<<"$navigation" | relink
        printf '</nav>\n<main>\n'
        cat "$body"
        printf '<footer>%s</footer>\n</main>\n</body>\n</html>\n' "$source"
    } > "$out/$target"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

printf 'const PAGES = [\n' > "$out/pages.js"
for source in "${pages[@]}"; do
    title=$(title_of "$source")
    with_names "$source" | to_html | relink > "$work/body"
    page "$source" "$work/body" "${source%.md}.html" "${title:-$source}"
    # Words to search: the page's text on one line, as JSON has it.
    text=$(sed -e '/^```/d' -e 's/[][`*|#>]//g' "$source" | tr '\n\t' '  ' | tr -s ' ' | sed -e 's/\\/\\\\/g' -e 's/"/\\"/g')
    printf '["%s", "%s", "%s"],\n' "${source%.md}.html" "${title//\"/\\\"}" "$text" >> "$out/pages.js"
done
printf '];\n' >> "$out/pages.js"
cp "$out/README.html" "$out/index.html"
cp tools/docs/site/site.css tools/docs/site/search.js "$out/"

# Source files that pages link to.
for source in "${pages[@]}"; do
    { grep -oE '\]\([^):#]+\.(c|h|hpp|cpp|py|lua|ini|txt|inc)\)' "$source" || true; } | sed -E 's/^\]\(//; s/\)$//' |
        while read -r link; do
            file=$(realpath -m --relative-to=. "$(dirname "$source")/$link")
            [ -f "$file" ] || continue
            [ -f "$out/$file.html" ] && continue
            { printf '<h1>%s</h1>\n<pre><code>' "$file"
              sed -e 's/&/\&amp;/g' -e 's/</\&lt;/g' "$file"
              printf '</code></pre>\n'; } > "$work/body"
            page "$file" "$work/body" "$file.html" "$file"
        done
done

# Every link leads somewhere.
dead=0
while IFS= read -r html; do
    here=$(dirname "$html")
    while IFS= read -r link; do
        target=${link%%#*}
        section=
        case $link in *#*) section=${link#*#} ;; esac
        file=$html
        [ -z "$target" ] || file=$here/$target
        [ -d "$file" ] && continue
        if [ ! -f "$file" ]; then
            echo "site: ${html#"$out/"}: there is no $link"
            dead=$((dead + 1))
        elif [ -n "$section" ] && ! grep -q "id=\"$section\"" "$file"; then
            echo "site: ${html#"$out/"}: $target has no section $section"
            dead=$((dead + 1))
        fi
    done < <(grep -oE 'href="[^":]+"' "$html" | sed -E 's/^href="//; s/"$//' | sort -u)
done < <(find "$out" -name '*.html')
[ "$dead" -eq 0 ] || { echo "site: $dead dead links"; exit 1; }
echo "site: $(find "$out" -name '*.html' | wc -l) pages in $out/index.html"
