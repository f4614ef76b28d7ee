#include "apps/serve/multipart.hpp"

#include <algorithm>
#include <fstream>
#include <optional>

#include <boost/algorithm/string/predicate.hpp>
#include <fmt/format.h>

#include "kinora/error.hpp"

namespace kinora::serve {
namespace {

constexpr size_t kPiece = 64 << 10;

[[noreturn]] void damaged(const std::string& why) {
  throw Error(KINORA_ERROR_INVALID, "the body is not multipart/form-data: " + why);
}

// The value of a parameter of a header: name in `form-data; name="a"; filename="b.png"`.
std::optional<std::string> parameter(std::string_view header, std::string_view name) {
  size_t at = header.find(';');
  while (at < header.size()) {
    at = header.find_first_not_of("; \t", at);
    if (at == header.npos) break;
    const size_t equals = header.find('=', at);
    if (equals == header.npos) break;
    const auto key = header.substr(at, equals - at);
    std::string value;
    at = equals + 1;
    if (at < header.size() && header[at] == '"') {
      for (++at; at < header.size() && header[at] != '"'; ++at) {
        if (header[at] == '\\' && at + 1 < header.size()) ++at;
        value += header[at];
      }
      ++at;
    } else {
      const size_t end = std::min(header.find(';', at), header.size());
      value = std::string(header.substr(at, end - at));
      value.erase(value.find_last_not_of(" \t") + 1);
      at = end;
    }
    if (boost::iequals(key, name)) return value;
    at = header.find(';', at);
  }
  return std::nullopt;
}

std::string boundary_of(const std::string& content_type) {
  const auto boundary = parameter(content_type, "boundary");
  if (!boundary || boundary->empty() || boundary->size() > 70)
    damaged("its header names no boundary of 1 to 70 letters");
  return *boundary;
}

// The body as pieces that end before a text.
class Body {
 public:
  explicit Body(const std::filesystem::path& file) : in_(file, std::ios::binary) {
    if (!in_) throw Error(KINORA_ERROR_IO, file.string() + ": the upload cannot be read");
  }
  // Gives what comes before `end`, and passes it. False: the body ends without it.
  template <class Take>
  bool until(std::string_view end, Take take) {
    for (;;) {
      if (const size_t at = have_.find(end); at != std::string::npos) {
        take(std::string_view(have_).substr(0, at));
        have_.erase(0, at + end.size());
        return true;
      }
      const size_t sure = have_.size() < end.size() ? 0 : have_.size() - end.size() + 1;
      take(std::string_view(have_).substr(0, sure));
      have_.erase(0, sure);
      if (!read()) return false;
    }
  }
  // This many bytes, or fewer at its end.
  std::string next(size_t count) {
    while (have_.size() < count && read()) {
    }
    const std::string out = have_.substr(0, count);
    have_.erase(0, out.size());
    return out;
  }
  std::string text_until(std::string_view end, size_t most, const char* what) {
    std::string out;
    const bool ended = until(end, [&](std::string_view piece) {
      if (out.size() + piece.size() > most) damaged(fmt::format("{} is longer than {} bytes", what, most));
      out += piece;
    });
    if (!ended) damaged("it ends within " + std::string(what));
    return out;
  }

 private:
  bool read() {
    const size_t before = have_.size();
    have_.resize(before + kPiece);
    in_.read(have_.data() + before, kPiece);
    have_.resize(before + static_cast<size_t>(in_.gcount()));
    return have_.size() > before;
  }
  std::ifstream in_;
  std::string have_;
};

// The value of Content-Disposition among a part's headers.
std::string disposition(std::string_view headers) {
  constexpr std::string_view kName = "content-disposition:";
  while (!headers.empty()) {
    const auto line = headers.substr(0, headers.find("\r\n"));
    headers.remove_prefix(std::min(headers.size(), line.size() + 2));
    if (boost::istarts_with(line, kName)) return std::string(line.substr(kName.size()));
  }
  damaged("a part has no Content-Disposition");
}

}  // namespace

std::vector<FormPart> read_form(const std::filesystem::path& body, const std::string& content_type,
                                const std::filesystem::path& folder, const FormLimits& limits) {
  const std::string border = "--" + boundary_of(content_type), between = "\r\n" + border;
  Body in(body);
  if (!in.text_until(border, limits.header_bytes, "what comes before its parts").empty())
    damaged("it does not begin with its boundary");
  std::vector<FormPart> out;
  for (;;) {
    const std::string after = in.next(2);
    if (after == "--") return out;
    if (after != "\r\n") damaged("a boundary has more letters than its header says");
    if (out.size() == limits.parts) damaged(fmt::format("it has more than {} parts", limits.parts));
    const std::string about =
        disposition(in.text_until("\r\n\r\n", limits.header_bytes, "the headers of a part"));
    FormPart part{.name = parameter(about, "name").value_or("")};
    if (part.name.empty()) damaged("a part has no name");
    const auto file_name = parameter(about, "filename");
    if (!file_name) {
      part.value = in.text_until(between, limits.value_bytes, part.name.c_str());
      part.bytes = part.value.size();
    } else {
      part.file_name = *file_name;
      part.file = std::make_shared<web::TemporaryFile>(folder);
      std::ofstream to(part.file->path(), std::ios::binary);
      if (!in.until(between, [&](std::string_view piece) {
            to.write(piece.data(), static_cast<std::streamsize>(piece.size()));
            part.bytes += piece.size();
          }))
        damaged("it ends within " + part.name);
      to.close();
      if (!to) throw Error(KINORA_ERROR_NO_MEMORY, "the upload cannot be kept; is the disk full?");
    }
    out.push_back(std::move(part));
  }
}

}  // namespace kinora::serve
