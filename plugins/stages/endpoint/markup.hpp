// Markup that chat templates and reasoning models leave in an answer's text.
#pragma once
#include <string>
#include <string_view>

namespace kinora::endpoint {

// Returns what the model said to the reader, trimmed: the text without thoughts, of any number of blocks, whose opening
// mark may have been in the prompt; the inside of <answer>; nothing from the mark that ends the turn on; no other special
// token. Empty if the model never stopped thinking.
std::string said_to_reader(std::string_view text);

}  // namespace kinora::endpoint
