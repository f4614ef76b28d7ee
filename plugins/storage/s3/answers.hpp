// The XML of an S3 server's answers, see docs.aws.amazon.com/AmazonS3/latest/API. It is untrusted:
// missing or wrong parts are an Error, never a crash.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kinora::s3 {

struct ServerError {
  std::string code, message, region;  // code empty: the answer is not an <Error>
};
ServerError read_error(std::string_view xml);

struct Listing {
  struct Object {
    std::string key;
    uint64_t size = 0;
    int64_t modified = 0;  // nanoseconds since 1970
  };
  std::vector<Object> objects;
  std::vector<std::string> prefixes;  // including the delimiter at their end
  std::string next;                   // token of the next page; empty: this was the last
};
// A page of ListObjectsV2. Throws Error(KINORA_ERROR_DATA).
Listing read_listing(std::string_view xml);

// Parses CreateMultipartUpload. Throws Error(KINORA_ERROR_DATA).
std::string read_upload_id(std::string_view xml);
// The object's ETag from CompleteMultipartUpload, without quotes. Throws Error(KINORA_ERROR_DATA).
std::string read_completed(std::string_view xml);
// The body of CompleteMultipartUpload; etags of part 1, 2, ... as received from the server.
std::string completion_body(const std::vector<std::string>& etags);

// "2026-11-22T12:25:20.14Z" to nanoseconds since 1970; 0 for anything else.
int64_t nanoseconds_of(const std::string& iso_time);

}  // namespace kinora::s3
