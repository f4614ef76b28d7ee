// Named sizes of a model: what they set, and what they leave alone.
#pragma once

namespace kinora {

// Sets an option as a named size has it. One that was given something other than its default is the user's word
// and stays; what of it cannot go with the rest is refused where the whole is checked.
template <class Options, class T, class V>
void preset(Options& options, T Options::*option, const V& value) {
  static const Options by_default;
  if (options.*option == by_default.*option) options.*option = value;
}

}  // namespace kinora
