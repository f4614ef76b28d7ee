// Markup that chat templates and reasoning models leave in an answer's text.
#pragma once
#include <string>
#include <string_view>

namespace kinora::endpoint {

// Returns what the model said to the reader, whole and trimmed: the text without thoughts, whose opening mark
// may have been in the prompt; the inside of <answer>; nothing from the mark that ends the turn on; no other
// special token. Empty if that is not sure: the model never stopped thinking, did not close its answer, or
// calls a tool.
//
// A caption may speak of marks (a slide shows <response>). So special tokens, <|...|>, count anywhere, except
// in quotes, and bare tags only where templates put them: thoughts and answers as a block at the beginning or
// on lines of its own; </think> without an opening one; </s>, <eos>, [EOS] and the like as the last words.
std::string said_to_reader(std::string_view text);

}  // namespace kinora::endpoint
