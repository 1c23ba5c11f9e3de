#compdef cueloop
# cueloop in zsh: the candidates come from `cueloop complete`; zsh quotes what it inserts.
_cueloop() {
    local line tab=$'\t'
    local -a typed lines values shown
    (( CURRENT > 2 )) && typed=("${(@Q)words[2,CURRENT-1]}")
    lines=("${(@f)$(command cueloop complete zsh -- "${(@)typed}" "${(Q)PREFIX}" 2>/dev/null)}")
    [[ $PREFIX == -*=* ]] && compset -P '*='
    case ${lines[1]} in
        folders) _files -/ ;;
        files) _files ;;
        words)
            for line in "${(@)lines[2,-1]}"; do
                values+=("${line%%$tab*}")
                shown+=("${${line%%$tab*}}${${line#*$tab}:+  -- ${line#*$tab}}")
            done
            (( $#values )) && compadd -V cueloop -l -d shown -a values
            ;;
    esac
}
if [[ $funcstack[1] == _cueloop ]]; then
    _cueloop "$@"
elif (( $+functions[compdef] )); then
    compdef _cueloop cueloop
fi
