// Writing: one PUT, or a multipart upload. Content-MD5 and the SHA-256 that is signed let the server check
// every byte; what it finds damaged is sent again.
#include "checksum.hpp"
#include "client.hpp"
#include "failure.hpp"

namespace kinora::s3 {
namespace {

constexpr const char* kDoing = "cannot be written";

std::vector<std::string> checked(std::string_view bytes, const char* type) {
  return {"Content-MD5: " + base64(md5_bytes(bytes)), std::string("Content-Type: ") + type,
          "x-amz-content-sha256: " + sha256_hex(bytes)};
}

}  // namespace

void Client::put(const ObjectPath& at, std::string_view bytes) {
  send({"PUT", at, kDoing, {}, checked(bytes, "application/octet-stream"), bytes});
}

std::string Client::begin_upload(const ObjectPath& at) {
  Call call{"POST", at, kDoing, {{"uploads", ""}}, checked("", "application/octet-stream")};
  const auto answer = send(call);
  try {
    return read_upload_id(answer.body);
  } catch (const Error& e) {
    throw Error(e.code(), at.uri() + ": cannot be written: " + e.what());
  }
}

std::string Client::put_part(const ObjectPath& at, const std::string& upload, int64_t number, std::string_view bytes,
                             const std::atomic<bool>* stop) {
  Call call{"PUT", at, kDoing, {{"partNumber", std::to_string(number)}, {"uploadId", upload}},
            checked(bytes, "application/octet-stream"), bytes};
  call.stop = stop;
  call.accept = [](const HttpAnswer& a) { return !a.header("etag").empty(); };
  return send(call).header("etag");
}

// The answer to a completion may be lost, and the next try then finds no such upload: the object says whether
// it is whole. A server may also say 200 and an error below it.
void Client::complete_upload(const ObjectPath& at, const std::string& upload, const std::vector<std::string>& etags,
                             uint64_t size) {
  const std::string body = completion_body(etags);
  Call call{"POST", at, kDoing, {{"uploadId", upload}}, checked(body, "application/xml"), body};
  call.accept = [](const HttpAnswer& a) { return read_error(a.body).code.empty(); };
  Tries tries(options_.retries);
  try {
    read_completed(send(call, tries).body);
  } catch (const Error& e) {
    if (e.code() != KINORA_NOT_FOUND || tries.count() == 1 || head(at).size != size) throw;
  }
  const uint64_t found = head(at).size;
  if (found != size)
    throw Error(KINORA_IO, at.uri() + ": " + kDoing + ": the server made " + std::to_string(found) + " of " +
                               std::to_string(size) + " bytes of its parts; write it again");
}

void Client::abort_upload(const ObjectPath& at, const std::string& upload) {
  try {
    send({"DELETE", at, "the upload cannot be aborted", {{"uploadId", upload}}});
  } catch (const Error& e) {
    if (e.code() != KINORA_NOT_FOUND) throw;
  }
}

}  // namespace kinora::s3
