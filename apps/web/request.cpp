// The parts of a request: its address, its range, its sender.
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <unistd.h>

#include <arpa/inet.h>
#include <fmt/format.h>

#include "apps/web/full_disk.hpp"
#include "apps/web/server.hpp"
#include "kinora/error.hpp"

namespace kinora::web {
namespace {

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// One that is too large counts as the largest.
std::optional<uint64_t> number(std::string_view text) {
  uint64_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error == std::errc::invalid_argument || end != text.data() + text.size()) return std::nullopt;
  return error == std::errc() ? out : UINT64_MAX;
}

}  // namespace

TemporaryFile::TemporaryFile(const std::filesystem::path& folder) {
  std::string name = (folder / "upload-XXXXXX").string();
  const int file = mkostemp(name.data(), O_CLOEXEC);
  if (file < 0)
    throw Error(is_disk_full(errno) ? KINORA_ERROR_NO_MEMORY : KINORA_ERROR_IO,
                "cannot create a file in " + folder.string() + ": " + std::strerror(errno));
  close(file);
  path_ = name;
}

TemporaryFile::~TemporaryFile() {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

std::string Request::header(std::string_view name) const {
  const auto at = headers.find(name);
  return at == headers.end() ? std::string() : at->second;
}

std::string Request::parameter(const std::string& name) const {
  const auto at = parameters.find(name);
  return at == parameters.end() ? std::string() : at->second;
}

std::optional<std::string> decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i] == '+' ? ' ' : text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? digit(text[i + 1]) : -1, low = high < 0 ? -1 : digit(text[i + 2]);
    if (low < 0) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

bool split_target(std::string_view target, std::string& path, Parameters& parameters) {
  target = target.substr(0, target.find('#'));
  const size_t mark = target.find('?');
  path = target.substr(0, mark);
  std::string_view rest = mark == target.npos ? "" : target.substr(mark + 1);
  while (!rest.empty()) {
    const size_t end = rest.find('&');
    const std::string_view one = rest.substr(0, end);
    const size_t equals = one.find('=');
    const auto name = decoded(one.substr(0, equals)),
               value = decoded(equals == one.npos ? "" : one.substr(equals + 1));
    if (!name || !value) return false;
    if (!one.empty()) parameters.emplace(*name, *value);
    rest = end == rest.npos ? "" : rest.substr(end + 1);
  }
  return true;
}

std::optional<Range> range_of(std::string_view header, uint64_t size) {
  const size_t dash = header.find('-');
  if (!header.starts_with("bytes=") || dash == header.npos) return std::nullopt;
  const std::string_view from = header.substr(6, dash - 6), to = header.substr(dash + 1);
  const auto first = number(from), last = number(to);
  if (from.empty()) {  // the last bytes
    if (!last) return std::nullopt;
    return *last == 0 || size == 0 ? Range{} : Range{true, size - std::min(*last, size), size - 1};
  }
  if (!first || (!to.empty() && (!last || *last < *first))) return std::nullopt;
  if (*first >= size) return Range{};
  return Range{true, *first, to.empty() ? size - 1 : std::min(*last, size - 1)};
}

namespace {

// "0100007F:1F90", as the tables have it: the address as the bytes of the network, read as a number of this machine.
std::string in_table(const End& end) { return fmt::format("{:08X}:{:04X}", htonl(end.address), end.port); }

}  // namespace

// A socket that its process has closed has inode 0, and says nothing about a user. One of IPv6 that speaks
// IPv4 has addresses "::ffff:a.b.c.d", which the table shows as four numbers.
std::string owner_of_client(const End& client, const End& server) {
  const std::string mapped = fmt::format("0000000000000000{:08X}", htonl(0xffff));
  for (int tries = 0; tries < 3; ++tries)  // a table that changes while it is read may lack a line
    for (const auto& [path, prefix] :
         {std::pair{"/proc/net/tcp", std::string()}, std::pair{"/proc/net/tcp6", mapped}}) {
      const std::string ends = " " + prefix + in_table(client) + " " + prefix + in_table(server) + " ";
      std::ifstream table(path);
      for (std::string line; std::getline(table, line);) {
        const size_t at = line.find(ends);
        unsigned user = 0;
        unsigned long inode = 0;
        if (at != line.npos &&
            std::sscanf(line.c_str() + at + ends.size(), "%*x %*x:%*x %*x:%*x %*x %u %*d %lu", &user,
                        &inode) == 2 &&
            inode != 0)
          return std::to_string(user);
      }
    }
  return "";
}

}  // namespace kinora::web
