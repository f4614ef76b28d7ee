#include "core/base/terminal.hpp"

#include <unistd.h>

#include <sys/ioctl.h>

#include "core/base/paths.hpp"

namespace kinora::core {

bool draws() { return isatty(STDERR_FILENO) != 0 && environment("TERM") != "dumb"; }

bool draws_colours() { return draws() && environment("NO_COLOR").empty(); }

size_t columns_of(int descriptor, size_t otherwise) {
  winsize size{};
  return ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : otherwise;
}

std::string fitted(std::string_view row, size_t columns) {
  std::string out;
  bool is_escape = false;
  for (const char c : row) {
    const bool is_begin = !is_escape && c != '\033' && (static_cast<unsigned char>(c) & 0xc0) != 0x80;
    if (is_begin && columns == 0) return out + (out.find('\033') != out.npos ? "\033[0m" : "");
    if (is_begin) --columns;
    is_escape = c == '\033' || (is_escape && c != 'm');
    out += c;
  }
  return out;
}

std::string fitted_parts(std::string row, size_t columns) {
  for (size_t at; fitted(row, columns) != row && (at = row.rfind(", ")) != row.npos;) row.resize(at);
  return fitted(row, columns);
}

}  // namespace kinora::core
