// Finds out what a terminal can show.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace kinora::core {

// [any-thread] Whether stderr is a terminal on which a line can be drawn again: not one of TERM=dumb.
bool draws();
// [any-thread] Whether it also gets colours: NO_COLOR is unset or empty (no-color.org).
bool draws_colours();
// [any-thread] Columns of the terminal behind a descriptor; `otherwise` if it is none.
size_t columns_of(int descriptor, size_t otherwise);
// The row, cut to so many columns, in which escape sequences take none and a character of UTF-8 takes one.
std::string fitted(std::string_view row, size_t columns);
// The same, without the last of its parts, parted by ", ", that do not fit whole.
std::string fitted_parts(std::string row, size_t columns);

}  // namespace kinora::core
