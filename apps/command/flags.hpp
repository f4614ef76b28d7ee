// The flags of a command, from which its parser, its help and completion come.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include <boost/program_options.hpp>

namespace kinora {

// A flag's value name says what completion offers (apps/kinora/completion.hpp lists the names): DIR, FILE, ID.
using Flags = boost::program_options::options_description;

struct Flag {
  std::string name;    // "--ranks"
  std::string letter;  // "-n", or ""
  std::string value;   // "N"; "": the flag takes none
  bool repeats = false;
};
std::vector<Flag> flags_in(const Flags&);

// The name of a value that is one of these words: "bf16|fp16|fp32".
std::string one_of(const std::vector<std::string>& words);

// Columns of a help: the terminal's, from 40 to 100.
size_t help_columns();

// The words of `text` in lines of at most help_columns(), of which all but the first begin with `indent` spaces.
// column: where the first line begins.
std::string wrapped(std::string_view text, size_t column, size_t indent, size_t columns = help_columns());

// "kinora data index PATH [--threads N]", wrapped, to follow "usage: ".
std::string usage_of(const std::string& call, const Flags&);

// "  -k, --top N   best matches to print (default 10)", a line or more for each flag.
std::string flags_text(const Flags&, size_t columns = help_columns());

// A help: its prose in lines of that width, and its flags. In `prose` an indented line is an entry, "  WORDS  what they
// mean", which lines go on that are indented further. WORDS stay on one line: a command is to be copied.
std::string help_of(std::string_view prose, const Flags&, size_t columns = help_columns());
std::string wrapped_prose(std::string_view prose, size_t columns = help_columns());

}  // namespace kinora
