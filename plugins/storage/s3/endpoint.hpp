// Addresses of requests: https://BUCKET.HOST/KEY, or with path style https://HOST/BUCKET/KEY.
#pragma once
#include <string>

#include "plugins/storage/s3/object_path.hpp"
#include "plugins/storage/s3/options.hpp"

namespace kinora::s3 {

struct Endpoint {
  std::string scheme, host;  // the host includes its port
  std::string folder;        // path of the endpoint, "/s3"; else empty
  std::string path_style;    // auto, on, off
  std::string url(const ObjectPath& at, const Query& query) const;
};

// An empty endpoint is AWS's endpoint of the region. Throws Error(KINORA_INVALID).
Endpoint endpoint_of(const Options& options);

}  // namespace kinora::s3
