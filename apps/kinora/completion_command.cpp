// kinora completion SHELL: a script that asks the program for components and jobs.
#include <algorithm>
#include <iostream>

#include "apps/kinora/command.hpp"
#include "core/plugin/kinds.hpp"

namespace kinora {
namespace {

constexpr const char* kBash = R"bash(# bash completion for kinora:  source <(kinora completion bash)
_kinora() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command="" i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      --plugins|--plugins-lock|--log) ((i++)) ;;
      -*) ;;
      *) command=${COMP_WORDS[i]}; break ;;
    esac
  done
  _kinora_words() { COMPREPLY=($(compgen -W "$1" -- "$cur")); }
  _kinora_flags() { _kinora_words "$1 $(kinora $command --help 2>/dev/null | sed -n 's/^ *\(-. \[ \)\{0,1\}\(--[a-z-]*\).*/\2/p')"; }
  _kinora_ids() { _kinora_words "$(kinora plugins list --ids 2>/dev/null)"; }
  case $prev in
    --plugins|--out|--logs) COMPREPLY=($(compgen -d -- "$cur")); return ;;
    --log) _kinora_words "trace debug info warn error"; return ;;
    --component) _kinora_ids; return ;;
    --tier) _kinora_words "stable pinned"; return ;;
    --lang) _kinora_words "c++ c"; return ;;
    --dtype) _kinora_words "bf16 fp16 fp32"; return ;;
    --from|--to) _kinora_words "original diffusers kinora"; return ;;
    --merge|--unmerge) COMPREPLY=($(compgen -f -- "$cur")); return ;;
    --inputs) COMPREPLY=($(compgen -f -- "$cur")); return ;;
    --method) _kinora_words "encode decode encode_decode forward gradient evaluate sample quantize"; return ;;
    --only) _kinora_words "$(sed -n 's/^ *name *= *"\([^"]*\)".*/\1/p' "${COMP_WORDS[@]:2}" 2>/dev/null)"; return ;;
  esac
  case $command in
    "") _kinora_words "run launch check generate search data plugins apply inspect convert plan studio bench completion --plugins --plugins-lock --log --version --help" ;;
    run) if [[ $cur == -* ]]; then _kinora_flags; else COMPREPLY=($(compgen -f -X '!*.toml' -- "$cur") $(compgen -d -- "$cur")); fi ;;
    launch) if [[ $cur == -* ]]; then _kinora_flags "-n -- --set --only --out"; else _kinora_words "run"; COMPREPLY+=($(compgen -f -X '!*.toml' -- "$cur") $(compgen -d -- "$cur")); fi ;;
    check) if [[ $cur == -* ]]; then _kinora_flags; else COMPREPLY=($(compgen -f -X '!*.toml' -- "$cur") $(compgen -d -- "$cur")); fi ;;
    generate) if [[ $cur == -* ]]; then _kinora_flags; else COMPREPLY=($(compgen -f -- "$cur")); fi ;;
    search) if [[ $cur == -* ]]; then _kinora_flags; else COMPREPLY=($(compgen -d -- "$cur")); fi ;;
    data) if [[ ${COMP_WORDS[i+1]} == order ]]; then command="data order"; fi
      if [[ $cur == -* ]]; then _kinora_flags; elif ((COMP_CWORD == i + 1)); then _kinora_words "index verify inspect preview order"; else COMPREPLY=($(compgen -f -- "$cur")); fi ;;
    plugins)
      if ((COMP_CWORD == i + 1)); then _kinora_words "list inspect validate manifest new check-parallel lock --help"; return; fi
      case ${COMP_WORDS[i+1]} in
        list) _kinora_words "@KINDS@ --json --markdown --ids" ;;
        new) if ((COMP_CWORD == i + 2)); then _kinora_words "@KINDS@"; else _kinora_words "--tier --lang"; COMPREPLY+=($(compgen -d -- "$cur")); fi ;;
        inspect) if [[ $cur == -* ]]; then _kinora_words "--json --markdown"; else _kinora_ids; fi ;;
        check-parallel) if [[ $cur == -* ]]; then _kinora_words "--ranks --set --timeout --json"; else _kinora_ids; fi ;;
        validate) _kinora_words "--include --exclude --seed --reproduce --set --input --at --timeout --json --help"; COMPREPLY+=($(compgen -f -- "$cur")) ;;
        manifest) _kinora_words "--tier --cuda --out --check"; COMPREPLY+=($(compgen -f -- "$cur")) ;;
        lock) COMPREPLY=($(compgen -f -- "$cur")) ;;
      esac ;;
    apply) if [[ $prev == apply && $cur != -* ]]; then _kinora_ids; elif [[ $cur == -* ]]; then _kinora_flags; else COMPREPLY=($(compgen -f -- "$cur")); fi ;;
    inspect) if [[ $prev == inspect && $cur != -* ]]; then _kinora_ids; else _kinora_flags; fi ;;
    convert) if [[ $cur == -* ]]; then _kinora_flags; else COMPREPLY=($(compgen -f -- "$cur")); fi ;;
    plan) if [[ $cur == -* ]]; then _kinora_flags; else COMPREPLY=($(compgen -f -X '!*.toml' -- "$cur") $(compgen -d -- "$cur")); fi ;;
    bench) _kinora_flags "plugin_call startup shots train sample vae block parallel curate curate_pipeline curate_memory record balance workers" ;;
    studio) if [[ $cur == -* ]]; then _kinora_flags; else COMPREPLY=($(compgen -d -- "$cur")); fi ;;
    completion) _kinora_words "bash zsh fish --help" ;;
  esac
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

// The function of bash; it knows the kinds of components.
std::string bash() {
  std::string kinds, out = kBash;
  for (const auto& kind : core::kinds()) kinds += (kinds.empty() ? "" : " ") + std::string(kind.name);
  for (size_t at; (at = out.find("@KINDS@")) != out.npos;) out.replace(at, 7, kinds);
  return out;
}

constexpr const char* kHelp = R"(usage: kinora completion SHELL

Prints a script that completes commands, options, components and jobs. SHELL is bash, zsh or fish.

examples:
  source <(kinora completion bash)       in ~/.bashrc
  source <(kinora completion zsh)        in ~/.zshrc
  kinora completion fish | source        in ~/.config/fish/config.fish
)";

}  // namespace

int completion_command(const Arguments& arguments) {
  if (std::any_of(arguments.begin(), arguments.end(),
                  [](const std::string& a) { return a == "--help" || a == "-h"; })) {
    std::cout << kHelp;
    return kDone;
  }
  const std::string shell = arguments.size() == 1 ? arguments[0] : "";
  if (shell == "bash")
    std::cout << bash();
  else if (shell == "zsh")
    std::cout << kZshBegin << bash() << kZshEnd;
  else if (shell == "fish")
    std::cout << kFish;
  else
    return complain(kUsage, "completion: give a shell, bash, zsh or fish: source <(kinora completion bash)");
  return kDone;
}

}  // namespace kinora
