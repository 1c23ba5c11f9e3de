# cueloop in bash: the candidates come from `cueloop complete`, quoted as they have to stand on the line.
_cueloop() {
    local IFS=$' \t\n' kind line
    COMPREPLY=()
    {
        IFS= read -r kind || return 0
        while IFS= read -r line; do
            COMPREPLY+=("$line")
        done
    } <<<"$(command cueloop complete bash -- "${COMP_TYPE:-}" "$COMP_WORDBREAKS" "${COLUMNS:-80}" "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)"
    case $kind in
        folders) compopt -o dirnames 2>/dev/null ;;
        files) compopt -o default 2>/dev/null ;;
    esac
    return 0
}
complete -o nosort -F _cueloop cueloop 2>/dev/null || complete -F _cueloop cueloop # before 4.4 in the order of the alphabet
