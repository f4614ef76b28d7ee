#include "plugins/storage/s3/http.hpp"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <memory>

#include <openssl/evp.h>

#include "kinora/error.hpp"

namespace kinora::s3 {
namespace {

constexpr size_t kMostText =
    16 << 20;  // limit of an answer that is kept as text: a page of a list has at most 4 MB
constexpr size_t kMostHeaders = 256;
constexpr size_t kMostIdle = 64;

struct Exchange {
  CURL* handle;
  const HttpRequest& request;
  HttpAnswer answer;
  bool is_full = false;  // more bytes arrived than fit
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

int is_stopped(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) noexcept {
  const auto* stop = static_cast<const HttpRequest*>(user)->stop;
  return stop && *stop ? 1 : 0;
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

void set_limits(CURL* h, const Options& o, const HttpRequest& r) {
  curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(o.connect_timeout * 1000));
  curl_easy_setopt(h, CURLOPT_LOW_SPEED_LIMIT,
                   1L);  // bytes/s: a server that sends nothing for this long is considered dead
  curl_easy_setopt(h, CURLOPT_LOW_SPEED_TIME, std::max(1L, static_cast<long>(o.timeout)));
  curl_easy_setopt(h, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(h, CURLOPT_XFERINFODATA, const_cast<HttpRequest*>(&r));
  curl_easy_setopt(h, CURLOPT_XFERINFOFUNCTION, is_stopped);
  curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(h, CURLOPT_FOLLOWLOCATION, 0L);  // a signature is valid for one address only
  if (!o.ca_file.empty()) curl_easy_setopt(h, CURLOPT_CAINFO, o.ca_file.c_str());
}

std::string digest(std::string_view bytes, const EVP_MD* kind) {
  unsigned char out[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), out, &size, kind, nullptr) != 1)
    throw Error(KINORA_ERROR_FAILED, "OpenSSL does not compute checksums here; is it set to FIPS only?");
  return {reinterpret_cast<char*>(out), size};
}

}  // namespace

Http::Http(const Options& options) : options_(options), signature_("aws:amz:" + options.region + ":s3") {
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

HttpAnswer Http::perform(const HttpRequest& r, const Credentials* credentials) {
  CURL* h = take();
  Exchange x{h, r, {}};
  std::unique_ptr<curl_slist, void (*)(curl_slist*)> headers(nullptr, curl_slist_free_all);
  const auto add = [&](const std::string& line) {
    headers.reset(curl_slist_append(headers.release(), line.c_str()));
  };
  for (const auto& line : r.headers) add(line);
  curl_easy_setopt(h, CURLOPT_URL, r.url.c_str());
  curl_easy_setopt(h, CURLOPT_PATH_AS_IS, 1L);  // "..", "//" are ordinary names
  curl_easy_setopt(h, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(h, CURLOPT_BUFFERSIZE, 512L * 1024);
  curl_easy_setopt(h, CURLOPT_UPLOAD_BUFFERSIZE, 1024L * 1024);
  curl_easy_setopt(h, CURLOPT_USERAGENT, "kinora");
  set_method(h, r);
  set_limits(h, options_, r);
  if (!r.range.empty()) curl_easy_setopt(h, CURLOPT_RANGE, r.range.c_str());
  if (credentials) {
    if (!credentials->token.empty()) add("x-amz-security-token: " + credentials->token);
    curl_easy_setopt(h, CURLOPT_AWS_SIGV4, signature_.c_str());
    curl_easy_setopt(h, CURLOPT_USERNAME, credentials->key.c_str());
    curl_easy_setopt(h, CURLOPT_PASSWORD, credentials->secret.c_str());
  }
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
  if (x.answer.code != CURLE_OK) x.answer.problem = said[0] ? said : curl_easy_strerror(x.answer.code);
  if (ends_where_it_says(x.answer))
    give(h);
  else
    curl_easy_cleanup(h);
  return std::move(x.answer);
}

std::string md5_bytes(std::string_view bytes) { return digest(bytes, EVP_md5()); }
std::string sha256_hex(std::string_view bytes) { return hexadecimal(digest(bytes, EVP_sha256())); }

std::string hexadecimal(std::string_view bytes) {
  constexpr const char* kHex = "0123456789abcdef";
  std::string out;
  for (const char c : bytes) out += {kHex[static_cast<unsigned char>(c) >> 4], kHex[c & 15]};
  return out;
}

std::string base64(std::string_view bytes) {
  std::string out((bytes.size() + 2) / 3 * 4, '\0');
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                  reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  return out;
}

}  // namespace kinora::s3
