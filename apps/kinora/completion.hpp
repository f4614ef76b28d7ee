// The words that may follow on a command line, from the tables of commands and their flags.
#pragma once
#include <string>
#include <vector>

#include "apps/command/command_line.hpp"

namespace kinora {

// Words that stand for names which only the shell knows.
inline constexpr const char *kFilesOfShell = "@files", *kFoldersOfShell = "@folders",
                            *kTomlOfShell = "@toml";  // folders and run files

// words: those after `kinora`, the last of which is the one to complete, as the shell has split them.
// The name of a value, in the help of its flag or in the arguments of its command, decides the words for it:
//   DIR FOLDER                 folders             FILE.toml           run files
//   FILE FILE.* PATH VIDEO CLIP ADAPTER IN OUT INPUT                   files and folders
//   ID JOB KIND METHOD CHECK SCHEME FORM FORMAT RULE LEVEL BENCHMARK PART SHELL    what the program knows
//   bf16|fp16                  these words         any other name      nothing
std::vector<std::string> completions(core::Runtime&, const Arguments& words);

}  // namespace kinora
