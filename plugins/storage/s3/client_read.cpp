// Reading: ranged GETs that continue where a connection broke.
#include <algorithm>
#include <charconv>
#include <optional>

#include "plugins/storage/s3/client.hpp"
#include "plugins/storage/s3/failure.hpp"

namespace kinora::s3 {
namespace {

constexpr const char* kReading = "cannot be read";
constexpr uint64_t kProgress = 64 << 10;  // a try that received this many bytes does not count as a failure

std::optional<uint64_t> number(std::string_view text) {
  uint64_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || out > INT64_MAX)
    return std::nullopt;
  return out;
}

// The part of the object that an answer contains. Some servers return the range with status 200.
struct Span {
  uint64_t begin = 0, total = 0;
};

std::optional<Span> span_of(const HttpAnswer& a) {
  const std::string text = a.header("content-range");  // "bytes 0-99/1000"
  if (text.empty()) {
    const auto size = number(a.header("content-length"));
    return a.status == 200 && size ? std::optional(Span{0, *size}) : std::nullopt;
  }
  const size_t dash = text.find('-'), slash = text.find('/');
  if (!text.starts_with("bytes ") || dash == text.npos || slash == text.npos || dash > slash)
    return std::nullopt;
  const auto begin = number(std::string_view(text).substr(6, dash - 6)),
             last = number(std::string_view(text).substr(dash + 1, slash - dash - 1)),
             total = number(std::string_view(text).substr(slash + 1));
  if (!begin || !last || !total || *begin > *last || *last >= *total) return std::nullopt;
  return Span{*begin, *total};
}

std::string bytes_from(uint64_t begin, uint64_t size) {
  return std::to_string(begin) + "-" + std::to_string(begin + size - 1);
}

bool is_success(const HttpAnswer& a) { return a.status == 200 || a.status == 206; }

}  // namespace

int64_t server_time(const std::string& text) {
  return text.empty() ? 0 : std::max<int64_t>(0, curl_getdate(text.c_str(), nullptr));
}

Opened Client::head(const ObjectPath& at) {
  const auto answer = send({"HEAD", at, kReading});
  const auto size = number(answer.header("content-length"));
  if (!size) throw Error(KINORA_DATA, at.uri() + ": cannot be read: the server does not say how large it is");
  return {*size, answer.header("etag"), "", server_time(answer.header("last-modified"))};
}

Opened Client::open(const ObjectPath& at, uint64_t first) {
  Opened out;
  Tries tries(options_.retries);
  for (;;) {
    out.first.resize(first);
    Call call{"GET", at, kReading};
    call.range = bytes_from(0, first);
    call.to = out.first.data();
    call.room = first;
    std::shared_ptr<const Credentials> used;
    const HttpAnswer a = once(call, used);
    if (a.code == CURLE_OK && a.status == 416) return head(at);  // it is empty: no byte 0
    const auto span = span_of(a);
    if (a.is_ok() && span && span->begin == 0 && (a.got > 0 || span->total == 0)) {
      out.first.resize(a.got);
      out.size = span->total;
      out.etag = a.header("etag");
      return out;
    }
    retry_or_throw(call, a, used.get(), tries);
  }
}

void Client::read(const ObjectPath& at, uint64_t offset, uint64_t size, char* to, const std::string& etag,
                  const std::atomic<bool>* stop) {
  Tries tries(options_.retries);
  for (uint64_t done = 0; done < size;) {
    Call call{"GET", at, kReading};
    if (!etag.empty()) call.headers = {"If-Match: " + etag};
    call.range = bytes_from(offset + done, size - done);
    call.to = to + done;
    call.room = size - done;
    call.stop = stop;
    std::shared_ptr<const Credentials> used;
    const HttpAnswer a = once(call, used);
    if (is_success(a) && !etag.empty() && !a.header("etag").empty() && a.header("etag") != etag)
      throw Error(KINORA_DATA, at.uri() +
                                   ": cannot be read: it was changed while it was read; do not write to what "
                                   "a run reads");
    const auto span = span_of(a);
    if (is_success(a) && span && span->begin == offset + done) {
      done += a.got;  // also when the connection broke
      if (a.got >= kProgress) tries.restart();
      if (done == size || (a.is_ok() && a.got > 0)) continue;
    } else if (a.is_ok() && a.status == 200 && a.header("content-range").empty()) {
      throw Error(KINORA_UNSUPPORTED,
                  at.uri() +
                      ": cannot be read: the server returns only whole objects, not ranges of them; is the "
                      "endpoint an S3 server?");
    }
    retry_or_throw(call, a, used.get(), tries);
  }
}

}  // namespace kinora::s3
