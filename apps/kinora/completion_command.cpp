// kinora completion SHELL: a script that asks the program which words may follow.
#include <algorithm>
#include <iostream>

#include "apps/kinora/command.hpp"
#include "apps/kinora/commands.hpp"
#include "apps/kinora/completion.hpp"

namespace kinora {
namespace {

constexpr const char* kBash = R"bash(# bash completion for kinora:  source <(kinora completion bash)
_kinora() {
  local IFS=$'\n' cur=${COMP_WORDS[COMP_CWORD]} word
  [[ $cur == = ]] && cur=""
  COMPREPLY=()
  for word in $(kinora completion words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null); do
    case $word in
      @files) COMPREPLY+=($(compgen -f -- "$cur")) ;;
      @folders) COMPREPLY+=($(compgen -d -- "$cur")) ;;
      @toml) COMPREPLY+=($(compgen -f -X '!*.toml' -- "$cur") $(compgen -d -- "$cur")) ;;
      "$cur"*) COMPREPLY+=("$word") ;;
    esac
  done
}
complete -o filenames -F _kinora kinora
)bash";

// zsh runs the functions of bash itself.
constexpr const char* kZshBegin = R"zsh(#compdef kinora
# zsh completion for kinora:  source <(kinora completion zsh)
autoload -U +X bashcompinit && bashcompinit
)zsh";
constexpr const char* kZshEnd = R"zsh(# The first completion loads this file as a function.
[[ $funcstack[1] = _kinora ]] && _bash_complete -o filenames -F _kinora
)zsh";

// fish asks bash.
constexpr const char* kFish = R"fish(# fish completion for kinora:  kinora completion fish | source
function __kinora_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    bash -c 'source <(kinora completion bash)
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        _kinora
        printf "%s\n" "${COMPREPLY[@]}"' bash $words "$current"
end
complete -c kinora -f -a '(__kinora_complete)'
)fish";

constexpr const char* kHelp = R"(usage: kinora completion SHELL

Prints a script that completes commands, options, components and jobs. SHELL is bash, zsh or fish.

examples:
  source <(kinora completion bash)       in ~/.bashrc
  source <(kinora completion zsh)        in ~/.zshrc
  kinora completion fish | source        in ~/.config/fish/config.fish
)";

}  // namespace

Flags completion_flags() {
  Flags out("options");
  out.add_options()("help,h", "this text");
  return out;
}

int completion_command(core::Runtime& runtime, const Arguments& arguments) {
  const std::string shell = arguments.empty() ? "" : arguments[0];
  if (shell == "words") {  // of the scripts
    for (const auto& word : completions(runtime, {arguments.begin() + 1, arguments.end()}))
      std::cout << word << "\n";
    return kDone;
  }
  if (std::ranges::any_of(arguments, [](const auto& a) { return a == "--help" || a == "-h"; }))
    std::cout << wrapped_prose(kHelp);
  else if (arguments.size() != 1 || std::ranges::find(kShells, shell) == kShells.end())
    return complain(kUsage, "completion: give a shell, bash, zsh or fish: source <(kinora completion bash)");
  else if (shell == "fish")
    std::cout << kFish;
  else
    std::cout << (shell == "zsh" ? kZshBegin : "") << kBash << (shell == "zsh" ? kZshEnd : "");
  return kDone;
}

}  // namespace kinora
