#include "plugins/storage/s3/endpoint.hpp"

#include <memory>

#include <curl/curl.h>

#include "kinora/error.hpp"

namespace kinora::s3 {
namespace {

std::string part(CURLU* url, CURLUPart which) {
  char* text = nullptr;
  if (curl_url_get(url, which, &text, 0) != CURLUE_OK) return {};
  const std::string out = text;
  curl_free(text);
  return out;
}

}  // namespace

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
    throw Error(KINORA_INVALID,
                "endpoint: it must not contain a name and password; set AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY");
  if (status != CURLUE_OK || out.host.empty() || (out.scheme != "http" && out.scheme != "https") ||
      !part(url.get(), CURLUPART_QUERY).empty())
    throw Error(KINORA_INVALID, "endpoint = \"" + options.endpoint +
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
