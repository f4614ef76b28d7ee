// "bucket/key": what follows "s3://".
#pragma once
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

}  // namespace kinora::s3
