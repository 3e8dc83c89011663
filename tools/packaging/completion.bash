# SPDX-License-Identifier: MIT
# Completion of tcc-train and tcc-opt in bash. The programs know their words: they print them for --complete.
_tcc_complete() {
    local line=${COMP_LINE:0:COMP_POINT} words current prefix candidate
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    current=${words[-1]}
    # What is before the last = or : in the word, readline has taken for words of their own.
    prefix=${current%"${current##*["${COMP_WORDBREAKS//[^=:]/}"]}"}
    [[ $COMP_WORDBREAKS == *[=:]* ]] || prefix=
    COMPREPLY=()
    while IFS= read -r candidate; do
        case $candidate in
        :folders) mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -d -- "${current#"$prefix"}") ;;
        :files) mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "${current#"$prefix"}") ;;
        :files\ *)
            mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(
                compgen -f -X "!*.${candidate#:files }" -- "${current#"$prefix"}"
                compgen -d -S / -- "${current#"$prefix"}"
            ) ;;
        *) COMPREPLY+=("${candidate#"$prefix"}") ;;
        esac
    done < <("${words[0]}" --complete "${words[@]:1}" 2>/dev/null)
    # A key waits for its value, a folder for a file in it.
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=/] ]] && compopt -o nospace 2>/dev/null
    return 0
}
complete -F _tcc_complete tcc-train tcc-opt
