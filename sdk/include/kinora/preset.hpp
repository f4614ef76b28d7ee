// Named sizes of a model: they set options that the user did not set.
#pragma once

namespace kinora {

// Sets an option to the value of a named size. A value that differs from the default was set by the user
// and stays; if it does not fit the rest, the check of all options rejects it.
template <class Options, class T, class V>
void preset(Options& options, T Options::*option, const V& value) {
  static const Options by_default;
  if (options.*option == by_default.*option) options.*option = value;
}

}  // namespace kinora
