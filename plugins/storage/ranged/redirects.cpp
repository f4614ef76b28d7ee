#include "plugins/storage/ranged/redirects.hpp"

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>

#include <arpa/inet.h>

namespace kinora::ranged {
namespace {

struct Block4 {
  uint32_t first;
  int bits;
};
constexpr uint32_t ip4(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  return a << 24 | b << 16 | c << 8 | d;
}
// The blocks that are not globally reachable.
constexpr Block4 kInside[] = {
    {ip4(0, 0, 0, 0), 8},     {ip4(10, 0, 0, 0), 8},      {ip4(100, 64, 0, 0), 10},
    {ip4(127, 0, 0, 0), 8},   {ip4(169, 254, 0, 0), 16},  {ip4(172, 16, 0, 0), 12},
    {ip4(192, 0, 0, 0), 24},  {ip4(192, 0, 2, 0), 24},    {ip4(192, 168, 0, 0), 16},
    {ip4(198, 18, 0, 0), 15}, {ip4(198, 51, 100, 0), 24}, {ip4(203, 0, 113, 0), 24},
    {ip4(224, 0, 0, 0), 4},   {ip4(240, 0, 0, 0), 4},
};

bool is_public4(uint32_t address) {
  for (const auto& block : kInside)
    if ((address ^ block.first) >> (32 - block.bits) == 0) return false;
  return true;
}

// Unicast of the Internet is 2000::/3. Inside it, 2001:db8::/32 is for documents, 2002::/16 and Teredo's 2001::/32
// contain IPv4 addresses of others. 64:ff9b::/96 and ::ffff:0:0/96 are IPv4 addresses.
bool is_public6(const std::array<uint8_t, 16>& a) {
  const auto starts = [&](std::initializer_list<uint8_t> with) {
    return std::equal(with.begin(), with.end(), a.begin());
  };
  const uint32_t last = ip4(a[12], a[13], a[14], a[15]);
  if (starts({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}) ||
      starts({0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0}))
    return is_public4(last);
  if (a[0] >> 5 != 1) return false;
  return !starts({0x20, 0x01, 0x0d, 0xb8}) && !starts({0x20, 0x01, 0, 0}) && !starts({0x20, 0x02});
}

using Url = std::unique_ptr<CURLU, void (*)(CURLU*)>;

std::string part(const Url& url, CURLUPart which) {
  char* text = nullptr;
  if (!url || curl_url_get(url.get(), which, &text, CURLU_DEFAULT_PORT) != CURLUE_OK) return "";
  std::string out(text);
  curl_free(text);
  return out;
}

// "https://host:443", lower case as libcurl writes schemes; host names compare without case.
std::string origin(const std::string& text) {
  const Url url(curl_url(), curl_url_cleanup);
  if (!url || curl_url_set(url.get(), CURLUPART_URL, text.c_str(), 0) != CURLUE_OK) return "";
  std::string host = part(url, CURLUPART_HOST);
  for (char& c : host)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return part(url, CURLUPART_SCHEME) + "://" + host + ":" + part(url, CURLUPART_PORT);
}

}  // namespace

bool is_public(const std::string& address) {
  in_addr four{};
  if (inet_pton(AF_INET, address.c_str(), &four) == 1) return is_public4(ntohl(four.s_addr));
  std::array<uint8_t, 16> six{};
  const std::string plain = address.substr(0, address.find('%'));  // without the interface
  return inet_pton(AF_INET6, plain.c_str(), six.data()) == 1 && is_public6(six);
}

Redirects::Redirects(const std::string& first_url) : first_(origin(first_url)) {}

std::string Redirects::refusal(const std::string& url) const {
  const std::string to = origin(url);
  if (!to.starts_with("http://") && !to.starts_with("https://"))
    return "the server redirects to " + url + ", which is not of the web";
  if (first_.starts_with("https://") && !to.starts_with("https://"))
    return "the server redirects from https to " + url + ", which is not encrypted";
  return "";
}

void Redirects::guard(CURL* handle, const std::string& url) {
  now_ = url;
  if (origin(url) != first_) curl_easy_setopt(handle, CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
  curl_easy_setopt(handle, CURLOPT_PREREQFUNCTION, before_request);
  curl_easy_setopt(handle, CURLOPT_PREREQDATA, this);
}

bool Redirects::may_connect(const std::string& address, const std::string& url) {
  const bool is_outside = is_public(address);
  if (!has_connected_) is_public_ = is_outside;
  has_connected_ = true;
  if (!is_public_ || is_outside) return true;
  problem_ = "the server redirects to " + url + " at " + address +
             ", an address inside a network; give that address itself if it is the right one";
  return false;
}

int Redirects::before_request(void* user, char* address, char*, int, int) noexcept try {
  auto& self = *static_cast<Redirects*>(user);
  return self.may_connect(address ? address : "", self.now_) ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT;
} catch (...) {
  return CURL_PREREQFUNC_ABORT;
}

}  // namespace kinora::ranged
