// Where an object is: "bucket/key", as it follows "s3://", and the URL of a request for it, by the user's
// options.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kinora::s3 {

struct ObjectPath {
  std::string bucket, key;
  std::string uri() const { return "s3://" + bucket + (key.empty() ? "" : "/" + key); }
};

// The key is everything after the first slash, unchanged: "%20", "+" and "//" are literal. Throws Error for a
// bucket name that is not valid.
ObjectPath object_path(std::string_view path);
// The same for a path that must name an object.
ObjectPath object_named(std::string_view path);

// RFC 3986 as SigV4 requires it: all but letters, digits and -._~ as %XX; '/' stays as it is in keys.
std::string encoded_key(std::string_view key);
std::string encoded_value(std::string_view value);
// Decodes names in an answer with encoding-type=url, where a space is a plus sign.
std::string decoded_name(std::string_view text);

using Query = std::vector<std::pair<std::string, std::string>>;
// "a=1&b=", sorted and encoded: the canonical form, which is also sent.
std::string query_text(Query query);

// The user's options of an S3 server, see plugin.toml.
struct Options {
  std::string endpoint, region;
  std::string path_style = "auto";
  std::string profile;
  bool anonymous = false;
  std::string ca_file;
  double connect_timeout = 10, timeout = 60;  // s
  int64_t retries = 8;
  int64_t part_size = 16 << 20;
  int64_t parallel = 4;
  int64_t read_ahead = 32 << 20;
};

// Addresses of requests: https://BUCKET.HOST/KEY, or with path style https://HOST/BUCKET/KEY.
struct Endpoint {
  std::string scheme, host;  // the host includes its port
  std::string folder;        // path of the endpoint, "/s3"; else empty
  std::string path_style;    // auto, on, off
  std::string url(const ObjectPath& at, const Query& query) const;
};

// An empty endpoint is AWS's endpoint of the region. Throws Error(KINORA_ERROR_INVALID).
Endpoint endpoint_of(const Options& options);

}  // namespace kinora::s3
