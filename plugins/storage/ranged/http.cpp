#include "plugins/storage/ranged/http.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string_view>

#include "kinora/error.hpp"
#include "plugins/storage/ranged/redirects.hpp"

namespace kinora::ranged {
namespace {

constexpr size_t kMostText =
    16 << 20;  // limit of an answer that is kept as text: a page of a list has at most 4 MB
constexpr size_t kMostHeaders = 256;
constexpr size_t kMostIdle = 64;
constexpr double kMovingSpeed = 64 << 10;  // bytes/s that a run which was asked to stop still waits for
constexpr int kMostRedirects = 10;

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kInterruptLasts(1);  // the host repeats it until the run has ended

std::atomic<Clock::duration>& interrupted_until() {
  static std::atomic<Clock::duration> until = Clock::duration::min();
  return until;
}

struct Exchange {
  CURL* handle;
  const HttpRequest& request;
  HttpAnswer answer;
  bool is_full = false;  // more bytes arrived than fit
  bool is_slow = false;  // in the time before `looked`
  curl_off_t moved = 0;  // bytes until then, both ways
  Clock::time_point looked = Clock::now();
};

// Called through curl's C frames, which exceptions must not cross: a failure ends the transfer.
size_t take_body(char* data, size_t, size_t size, void* user) noexcept try {
  auto& x = *static_cast<Exchange*>(user);
  long status = 0;
  curl_easy_getinfo(x.handle, CURLINFO_RESPONSE_CODE, &status);
  if (x.request.to && status >= 200 && status < 300) {
    const size_t fits = std::min<uint64_t>(size, x.request.room - x.answer.got);
    std::copy_n(data, fits, x.request.to + x.answer.got);
    x.answer.got += fits;
    x.is_full = fits < size;
    return fits;
  }
  if (x.answer.body.size() + size > kMostText) return 0;
  x.answer.body.append(data, size);
  return size;
} catch (...) {
  return 0;
}

size_t take_header(char* data, size_t, size_t size, void* user) noexcept try {
  auto& x = *static_cast<Exchange*>(user);
  const std::string_view line(data, size);
  if (line.starts_with("HTTP/")) x.answer.headers.clear();  // after "100 Continue"
  const size_t colon = line.find(':');
  if (colon == line.npos || x.answer.headers.size() >= kMostHeaders) return size;
  std::string name(line.substr(0, colon));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); });
  const size_t begin = line.find_first_not_of(" \t", colon + 1), end = line.find_last_not_of(" \t\r\n");
  x.answer.headers[name] = begin <= end && begin != line.npos ? line.substr(begin, end - begin + 1) : "";
  return size;
} catch (...) {
  return 0;
}

// libcurl asks at least once a second.
int has_to_end(void* user, curl_off_t, curl_off_t down, curl_off_t, curl_off_t up) noexcept {
  auto& x = *static_cast<Exchange*>(user);
  if (x.request.stop && *x.request.stop) return 1;
  const auto now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - x.looked).count();
  if (seconds > 0.5) {
    x.is_slow = static_cast<double>(down + up - x.moved) < seconds * kMovingSpeed;
    x.moved = down + up;
    x.looked = now;
  }
  return x.is_slow && x.request.ends_with_run && is_stopped(nullptr) ? 1 : 0;
}

// Whether the length of an answer matches the range in its header. If not, the rest may still arrive,
// and the next request on the connection would take it for its own answer.
bool ends_where_it_says(const HttpAnswer& a) {
  const std::string range = a.header("content-range"), length = a.header("content-length");
  unsigned long long first = 0, last = 0, size = 0;
  if (std::sscanf(range.c_str(), "bytes %llu-%llu/", &first, &last) != 2) return true;
  return std::sscanf(length.c_str(), "%llu", &size) != 1 || last - first + 1 == size;
}

void set_method(CURL* h, const HttpRequest& r) {
  if (r.method == "HEAD") {
    curl_easy_setopt(h, CURLOPT_NOBODY, 1L);
  } else if (r.method == "PUT" || r.method == "POST") {
    curl_easy_setopt(h, CURLOPT_POST, 1L);
    curl_easy_setopt(h, CURLOPT_POSTFIELDS, r.body.empty() ? "" : r.body.data());
    curl_easy_setopt(h, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(r.body.size()));
    curl_easy_setopt(h, CURLOPT_CUSTOMREQUEST, r.method.c_str());
  } else if (r.method != "GET") {
    curl_easy_setopt(h, CURLOPT_CUSTOMREQUEST, r.method.c_str());
  }
}

void set_limits(CURL* h, const HttpOptions& o, Exchange& x) {
  curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(o.connect_timeout * 1000));
  curl_easy_setopt(h, CURLOPT_LOW_SPEED_LIMIT, kLeastSpeed);
  curl_easy_setopt(h, CURLOPT_LOW_SPEED_TIME, std::max(1L, static_cast<long>(o.timeout)));
  curl_easy_setopt(h, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(h, CURLOPT_XFERINFODATA, &x);
  curl_easy_setopt(h, CURLOPT_XFERINFOFUNCTION, has_to_end);
  curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
  if (!o.ca_file.empty()) curl_easy_setopt(h, CURLOPT_CAINFO, o.ca_file.c_str());
}

// A signature is valid for one address only, so redirects are followed by Http::perform, if at all.
void set_addresses(CURL* h, const HttpOptions& o, const HttpRequest& r) {
  curl_easy_setopt(h, CURLOPT_URL, r.url.c_str());
  curl_easy_setopt(h, CURLOPT_PATH_AS_IS, 1L);  // "..", "//" are ordinary names
  curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(h, CURLOPT_FOLLOWLOCATION, 0L);
  if (o.is_web) curl_easy_setopt(h, CURLOPT_NETRC, static_cast<long>(CURL_NETRC_OPTIONAL));
}

std::optional<uint64_t> number(std::string_view text) {
  uint64_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || out > INT64_MAX)
    return std::nullopt;
  return out;
}

}  // namespace

bool is_stopped(const std::atomic<bool>* stop) {
  return (stop && *stop) || Clock::now().time_since_epoch() < interrupted_until().load();
}

void interrupt() { interrupted_until() = (Clock::now() + kInterruptLasts).time_since_epoch(); }

std::optional<uint64_t> length_of(const HttpAnswer& a) { return number(a.header("content-length")); }

// Some servers return the range with status 200.
std::optional<Span> span_of(const HttpAnswer& a) {
  const std::string text = a.header("content-range");  // "bytes 0-99/1000"
  if (text.empty()) {
    const auto size = length_of(a);
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

int64_t server_time(const std::string& text) {
  return text.empty() ? 0 : std::max<int64_t>(0, curl_getdate(text.c_str(), nullptr));
}

Http::Http(HttpOptions options) : options_(std::move(options)) {
  static const CURLcode started =
      curl_global_init(CURL_GLOBAL_DEFAULT);  // initialised once, and never cleaned up
  if (started != CURLE_OK)
    throw Error(KINORA_ERROR_FAILED, std::string("libcurl cannot start: ") + curl_easy_strerror(started));
}

Http::~Http() {
  for (CURL* h : idle_) curl_easy_cleanup(h);
}

CURL* Http::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      CURL* out = idle_.back();
      idle_.pop_back();
      return out;
    }
  }
  CURL* made = curl_easy_init();
  if (!made) throw Error(KINORA_ERROR_NO_MEMORY, "libcurl has no memory for a connection");
  return made;
}

void Http::give(CURL* handle) {
  curl_easy_reset(handle);  // clears keys and addresses, keeps the connection
  const std::lock_guard lock(mutex_);
  if (idle_.size() < kMostIdle) return idle_.push_back(handle);
  curl_easy_cleanup(handle);
}

HttpAnswer Http::perform(const HttpRequest& first) {
  if (!options_.is_web) return exchange(first, nullptr);
  Redirects redirects(first.url);
  HttpRequest r = first;
  for (int followed = 0;; ++followed) {
    HttpAnswer a = exchange(r, &redirects);
    if (a.code != CURLE_OK || a.redirect.empty()) return a;
    if (followed == kMostRedirects) {
      a.code = CURLE_TOO_MANY_REDIRECTS;
      a.problem = "more than " + std::to_string(kMostRedirects) + " redirects";
      return a;
    }
    if (const std::string why = redirects.refusal(a.redirect); !why.empty()) {
      a.code = CURLE_UNSUPPORTED_PROTOCOL;
      a.problem = why;
      return a;
    }
    r.url = a.redirect;
  }
}

HttpAnswer Http::exchange(const HttpRequest& r, Redirects* redirects) {
  CURL* h = take();
  Exchange x{h, r, {}};
  std::unique_ptr<curl_slist, void (*)(curl_slist*)> headers(nullptr, curl_slist_free_all);
  for (const auto& line : r.headers) headers.reset(curl_slist_append(headers.release(), line.c_str()));
  curl_easy_setopt(h, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(h, CURLOPT_BUFFERSIZE, 512L * 1024);
  curl_easy_setopt(h, CURLOPT_UPLOAD_BUFFERSIZE, 1024L * 1024);
  curl_easy_setopt(h, CURLOPT_USERAGENT, "kinora");
  set_method(h, r);
  set_limits(h, options_, x);
  set_addresses(h, options_, r);
  if (redirects) redirects->guard(h, r.url);
  if (!r.range.empty()) curl_easy_setopt(h, CURLOPT_RANGE, r.range.c_str());
  if (r.prepare) r.prepare(h);
  curl_easy_setopt(h, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, take_body);
  curl_easy_setopt(h, CURLOPT_WRITEDATA, &x);
  curl_easy_setopt(h, CURLOPT_HEADERFUNCTION, take_header);
  curl_easy_setopt(h, CURLOPT_HEADERDATA, &x);
  char said[CURL_ERROR_SIZE] = "";
  curl_easy_setopt(h, CURLOPT_ERRORBUFFER, said);
  x.answer.code = curl_easy_perform(h);
  if (x.answer.code == CURLE_WRITE_ERROR && x.is_full) x.answer.code = CURLE_OK;
  curl_easy_getinfo(h, CURLINFO_RESPONSE_CODE, &x.answer.status);
  if (const char* url = nullptr; curl_easy_getinfo(h, CURLINFO_EFFECTIVE_URL, &url) == CURLE_OK && url)
    x.answer.url = url;
  if (const char* url = nullptr; curl_easy_getinfo(h, CURLINFO_REDIRECT_URL, &url) == CURLE_OK && url)
    x.answer.redirect = url;
  if (x.answer.code != CURLE_OK) x.answer.problem = said[0] ? said : curl_easy_strerror(x.answer.code);
  if (redirects && x.answer.code == CURLE_ABORTED_BY_CALLBACK && !redirects->problem().empty()) {
    x.answer.code = CURLE_REMOTE_ACCESS_DENIED;
    x.answer.problem = redirects->problem();
  }
  if (ends_where_it_says(x.answer))
    give(h);
  else
    curl_easy_cleanup(h);
  return std::move(x.answer);
}

}  // namespace kinora::ranged
