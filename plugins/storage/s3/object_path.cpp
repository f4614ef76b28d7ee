#include "plugins/storage/s3/object_path.hpp"

#include <algorithm>
#include <memory>

#include <curl/curl.h>

#include "kinora/error.hpp"

namespace kinora::s3 {
namespace {

constexpr size_t kLongestKey = 1024;  // bytes of UTF-8, limit of S3

// Not std::isalnum, which depends on the locale.
bool is_letter_or_digit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

std::string encoded(std::string_view text, bool keep_slash) {
  constexpr const char* kHex = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    if (is_letter_or_digit(c) || c == '-' || c == '.' || c == '_' || c == '~' || (keep_slash && c == '/')) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return out;
}

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

std::string part(CURLU* url, CURLUPart which) {
  char* text = nullptr;
  if (curl_url_get(url, which, &text, 0) != CURLUE_OK) return {};
  const std::string out = text;
  curl_free(text);
  return out;
}

}  // namespace

ObjectPath object_path(std::string_view path) {
  const size_t slash = path.find('/');
  ObjectPath out{std::string(path.substr(0, slash)),
                 slash == path.npos ? std::string() : std::string(path.substr(slash + 1))};
  // The bucket may become a part of the host name, so only S3's own letters are allowed.
  const auto ok = [](char c) { return is_letter_or_digit(c) || c == '-' || c == '.' || c == '_'; };
  if (out.bucket.size() < 3 || out.bucket.size() > 63 || !is_letter_or_digit(out.bucket[0]) ||
      !std::all_of(out.bucket.begin(), out.bucket.end(), ok))
    throw Error(KINORA_ERROR_INVALID,
                "s3://" + std::string(path) + ": '" + out.bucket +
                    "' is not a bucket name (3 to 63 letters, digits, '-', '_' and '.'); write "
                    "s3://BUCKET/KEY");
  if (out.key.find('\0') != std::string::npos)
    throw Error(KINORA_ERROR_INVALID, out.bucket + ": the key contains a NUL character");
  if (out.key.size() > kLongestKey)
    throw Error(KINORA_ERROR_INVALID, out.uri() + ": the key has " + std::to_string(out.key.size()) +
                                          " bytes, and S3 allows 1,024; shorten it");
  return out;
}

ObjectPath object_named(std::string_view path) {
  auto out = object_path(path);
  if (out.key.empty())
    throw Error(KINORA_ERROR_INVALID, out.uri() + ": names a bucket but no object; write s3://BUCKET/KEY");
  return out;
}

std::string encoded_key(std::string_view key) { return encoded(key, true); }
std::string encoded_value(std::string_view value) { return encoded(value, false); }

std::string decoded_name(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool coded =
        text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) >= 0 && digit(text[i + 2]) >= 0;
    if (coded) {
      out += static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2]));
      i += 2;
    } else {
      out += text[i] == '+' ? ' ' : text[i];
    }
  }
  return out;
}

std::string query_text(Query query) {
  for (auto& [name, value] : query) name = encoded_value(name), value = encoded_value(value);
  std::sort(query.begin(), query.end());
  std::string out;
  for (const auto& [name, value] : query) out += (out.empty() ? "" : "&") + name + "=" + value;
  return out;
}

Endpoint endpoint_of(const Options& options) {
  Endpoint out{"https", "s3." + options.region + ".amazonaws.com", "", options.path_style};
  if (options.region.starts_with("cn-")) out.host += ".cn";
  if (out.path_style == "auto" && !options.endpoint.empty())
    out.path_style = "on";  // required by other servers
  if (options.endpoint.empty()) return out;
  const bool has_scheme = options.endpoint.find("://") != std::string::npos;
  const std::unique_ptr<CURLU, void (*)(CURLU*)> url(curl_url(), curl_url_cleanup);
  const auto status =
      curl_url_set(url.get(), CURLUPART_URL, ((has_scheme ? "" : "https://") + options.endpoint).c_str(), 0);
  out.scheme = part(url.get(), CURLUPART_SCHEME);
  out.host = part(url.get(), CURLUPART_HOST);
  if (!part(url.get(), CURLUPART_USER).empty())
    throw Error(KINORA_ERROR_INVALID,
                "endpoint: it must not contain a name and password; set AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY");
  if (status != CURLUE_OK || out.host.empty() || (out.scheme != "http" && out.scheme != "https") ||
      !part(url.get(), CURLUPART_QUERY).empty())
    throw Error(KINORA_ERROR_INVALID, "endpoint = \"" + options.endpoint +
                                          "\": write the server's address, as https://s3.example.org or "
                                          "http://127.0.0.1:9000");
  if (const auto port = part(url.get(), CURLUPART_PORT); !port.empty()) out.host += ":" + port;
  out.folder = part(url.get(), CURLUPART_PATH);
  while (out.folder.ends_with('/')) out.folder.pop_back();
  return out;
}

std::string Endpoint::url(const ObjectPath& at, const Query& query) const {
  // A certificate for *.HOST does not cover a bucket name with a dot.
  const bool by_path =
      path_style == "on" || (path_style == "auto" && at.bucket.find('.') != std::string::npos);
  std::string out = scheme + "://" + (by_path ? host : at.bucket + "." + host) + folder;
  if (by_path) out += "/" + at.bucket;
  if (!at.key.empty() || !by_path) out += "/" + encoded_key(at.key);
  return query.empty() ? out : out + "?" + query_text(query);
}

}  // namespace kinora::s3
