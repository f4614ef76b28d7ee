#include "connection.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>

#include <curl/curl.h>

namespace kinora::endpoint {
namespace {

constexpr int kPollMs = 100;  // longest time until a cancellation is noticed

void start_library() {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
}

struct Received {
  std::string body;
  size_t largest;
  bool too_large = false;
};

// Called through curl's C frames, which exceptions must not cross: an error ends the transfer.
size_t receive(char* data, size_t, size_t n, void* to) noexcept try {
  auto& received = *static_cast<Received*>(to);
  received.too_large = received.body.size() + n > received.largest;
  if (received.too_large) return 0;  // ends the transfer
  received.body.append(data, n);
  return n;
} catch (...) {
  return 0;
}

// Whether an error comes from the request's setup, so that a retry cannot help.
bool permanent(CURLcode code) {
  switch (code) {
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_ENGINE_NOTFOUND:
    case CURLE_FILESIZE_EXCEEDED:
      return true;
    default:
      return false;
  }
}

using Headers = std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)>;

Headers headers_of(const Request& request) {
  curl_slist* list = curl_slist_append(nullptr, "Content-Type: application/json");
  list = curl_slist_append(list, "Accept: application/json");
  list = curl_slist_append(list, "Expect:");  // otherwise curl first asks whether it may send a large body
  if (!request.key.empty()) list = curl_slist_append(list, ("Authorization: Bearer " + request.key).c_str());
  return {list, curl_slist_free_all};
}

void set_up(CURL* easy, const Request& request, const curl_slist* headers, Received& received) {
  curl_easy_reset(easy);
  curl_easy_setopt(easy, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_USERAGENT, "kinora");
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(easy, CURLOPT_POST, 1L);
  curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request.body.data());
  curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(std::ceil(request.timeout * 1000)));
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                   static_cast<long>(std::ceil(request.connect_timeout * 1000)));
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(easy, CURLOPT_MAXFILESIZE_LARGE, static_cast<curl_off_t>(request.largest));
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, receive);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &received);
  if (!request.ca_file.empty()) curl_easy_setopt(easy, CURLOPT_CAINFO, request.ca_file.c_str());
}

// Adds an easy handle to a multi handle for the duration of one request.
class Transfer {
 public:
  Transfer(CURLM* multi, CURL* easy) : multi_(multi), easy_(easy) { curl_multi_add_handle(multi_, easy_); }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;
  ~Transfer() { curl_multi_remove_handle(multi_, easy_); }

  CURLcode run(const Stop& stop) {
    for (;;) {
      int running = 0;
      if (curl_multi_perform(multi_, &running) != CURLM_OK) return CURLE_FAILED_INIT;
      if (running == 0) break;
      stop();
      curl_multi_poll(multi_, nullptr, 0, kPollMs, nullptr);
    }
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi_, &left))
      if (message->msg == CURLMSG_DONE) return message->data.result;
    return CURLE_RECV_ERROR;
  }

 private:
  CURLM* multi_;
  CURL* easy_;
};

}  // namespace

Connection::Connection() {
  start_library();
  multi_ = curl_multi_init();
  easy_ = curl_easy_init();
  if (!multi_ || !easy_) {
    curl_easy_cleanup(easy_);
    curl_multi_cleanup(multi_);
    throw std::bad_alloc();
  }
}

Connection::~Connection() {
  curl_easy_cleanup(easy_);
  curl_multi_cleanup(multi_);
}

Response Connection::post(const Request& request, const Stop& stop) {
  const Headers headers = headers_of(request);
  Received received{{}, static_cast<size_t>(request.largest)};
  set_up(easy_, request, headers.get(), received);
  const CURLcode code = Transfer(multi_, easy_).run(stop);
  if (received.too_large || code == CURLE_FILESIZE_EXCEEDED)
    throw Unanswered("the answer is larger than " + std::to_string(request.largest) +
                         " bytes; raise answer_size if this is expected",
                     false);
  const bool nobody = code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST;
  if (code != CURLE_OK) throw Unanswered(curl_easy_strerror(code), !permanent(code), nobody);
  Response out;
  curl_off_t wait = 0;
  curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &out.status);
  curl_easy_getinfo(easy_, CURLINFO_RETRY_AFTER, &wait);
  out.retry_after = static_cast<double>(std::max<curl_off_t>(0, wait));
  out.body = std::move(received.body);
  return out;
}

namespace {

using Url = std::unique_ptr<CURLU, decltype(&curl_url_cleanup)>;

std::string part_of(CURLU* url, CURLUPart part) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, 0) != CURLUE_OK) return "";
  std::string out(text);
  curl_free(text);
  return out;
}

}  // namespace

std::string wrong_url(const std::string& text) {
  start_library();
  const Url url(curl_url(), curl_url_cleanup);
  if (curl_url_set(url.get(), CURLUPART_URL, text.c_str(), CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK)
    return "is not an address; give one such as http://127.0.0.1:8000/v1";
  const std::string scheme = part_of(url.get(), CURLUPART_SCHEME);
  if (scheme != "http" && scheme != "https")
    return "begins with " + scheme + "; give an http or https address";
  if (!part_of(url.get(), CURLUPART_USER).empty() || !part_of(url.get(), CURLUPART_PASSWORD).empty())
    return "contains a user or a password; put the key into the environment and name the variable in "
           "api_key_env";
  if (!part_of(url.get(), CURLUPART_QUERY).empty() || !part_of(url.get(), CURLUPART_FRAGMENT).empty())
    return "has a query or fragment after its path; end it with the version, as in https://api.openai.com/v1";
  return "";
}

bool goes_in_clear(const std::string& text) {
  const Url url(curl_url(), curl_url_cleanup);
  if (curl_url_set(url.get(), CURLUPART_URL, text.c_str(), 0) != CURLUE_OK) return true;
  const std::string host = part_of(url.get(), CURLUPART_HOST);
  const bool here = host == "localhost" || host == "[::1]" || host.starts_with("127.");
  return part_of(url.get(), CURLUPART_SCHEME) == "http" && !here;
}

}  // namespace kinora::endpoint
