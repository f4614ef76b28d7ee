// The XML that an S3 server answers with, see docs.aws.amazon.com/AmazonS3/latest/API. It comes from outside:
// what it lacks or gets wrong is an Error, never a crash.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kinora::s3 {

struct ServerError {
  std::string code, message, region;  // code empty: the answer is no <Error>
};
ServerError read_error(std::string_view xml);

struct Listing {
  struct Object {
    std::string key;
    uint64_t size = 0;
    int64_t modified = 0;  // nanoseconds since 1970
  };
  std::vector<Object> objects;
  std::vector<std::string> prefixes;  // with the delimiter at their end
  std::string next;                   // token of the page that follows; empty: this was the last
};
// A page of ListObjectsV2. Throws Error(KINORA_DATA).
Listing read_listing(std::string_view xml);

// Of CreateMultipartUpload. Throws Error(KINORA_DATA).
std::string read_upload_id(std::string_view xml);
// The object's ETag by CompleteMultipartUpload, without quotes. Throws Error(KINORA_DATA).
std::string read_completed(std::string_view xml);
// The body of CompleteMultipartUpload; etags of part 1, 2, ... as the server gave them.
std::string completion_body(const std::vector<std::string>& etags);

// "2026-11-22T12:25:20.14Z" to nanoseconds since 1970; 0 for anything else.
int64_t nanoseconds_of(const std::string& iso_time);

}  // namespace kinora::s3
