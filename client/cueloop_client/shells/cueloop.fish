# cueloop in fish 3.2 or newer: the candidates come from `cueloop complete`; fish quotes what it inserts.
function __cueloop_complete
    set -l typed (commandline -opc)
    set -l word (commandline -ct)
    set -l lines (command cueloop complete fish -- $typed[2..-1] "$word" 2>/dev/null)
    switch "$lines[1]"
        case folders
            set -l before (string match -r -- '^--?[a-z0-9-]+=' "$word")
            __fish_complete_directories (string replace -r -- '^--?[a-z0-9-]+=' '' "$word") '' | string replace -r -- '^' "$before"
        case files
            set -l before (string match -r -- '^--?[a-z0-9-]+=' "$word")
            __fish_complete_path (string replace -r -- '^--?[a-z0-9-]+=' '' "$word") | string replace -r -- '^' "$before"
        case words
            printf '%s\n' $lines[2..-1]
    end
end
complete -c cueloop -e
complete -c cueloop -k -f -a '(__cueloop_complete)'
