// Writing: one PUT, or a multipart upload. Content-MD5 and the signed SHA-256 let the server check
// every byte; damaged data is sent again.
#include <exception>

#include "plugins/storage/s3/checksum.hpp"
#include "plugins/storage/s3/client.hpp"
#include "plugins/storage/s3/failure.hpp"

namespace kinora::s3 {
namespace {

constexpr const char* kWriting = "cannot be written";

std::vector<std::string> checked(std::string_view bytes, const char* type) {
  return {"Content-MD5: " + base64(md5_bytes(bytes)), std::string("Content-Type: ") + type,
          "x-amz-content-sha256: " + sha256_hex(bytes)};
}

}  // namespace

void Client::put(const ObjectPath& at, std::string_view bytes) {
  send({"PUT", at, kWriting, {}, checked(bytes, "application/octet-stream"), bytes});
}

Upload Client::begin_upload(const ObjectPath& at) {
  Call call{"POST", at, kWriting, {{"uploads", ""}}, checked("", "application/octet-stream")};
  const auto answer = send(call);
  try {
    return {read_upload_id(answer.body), server_time(answer.header("date"))};
  } catch (const Error& e) {
    throw Error(e.code(), at.uri() + ": cannot be written: " + e.what());
  }
}

std::string Client::put_part(const ObjectPath& at, const Upload& upload, int64_t number,
                             std::string_view bytes, const std::atomic<bool>* stop) {
  Call call{"PUT",
            at,
            kWriting,
            {{"partNumber", std::to_string(number)}, {"uploadId", upload.id}},
            checked(bytes, "application/octet-stream"),
            bytes};
  call.stop = stop;
  call.accept = [](const HttpAnswer& a) { return !a.header("etag").empty(); };
  return send(call).header("etag");
}

// The answer to a completion may be lost, and the next try, which libcurl may have made by itself, finds no
// such upload. An object of this size that is not older than the upload is then the completed one. A
// server may also answer 200 with an error in the body.
void Client::complete_upload(const ObjectPath& at, const Upload& upload,
                             const std::vector<std::string>& etags, uint64_t size) {
  const std::string body = completion_body(etags);
  Call call{"POST", at, kWriting, {{"uploadId", upload.id}}, checked(body, "application/xml"), body};
  call.accept = [](const HttpAnswer& a) { return read_error(a.body).code.empty(); };
  std::exception_ptr no_upload;
  try {
    read_completed(send(call).body);
  } catch (const Error& e) {
    if (e.code() != KINORA_NOT_FOUND) throw;
    no_upload = std::current_exception();
  }
  Opened found;
  try {
    found = head(at);
  } catch (const Error&) {
    if (no_upload) std::rethrow_exception(no_upload);
    throw;
  }
  const bool is_older = found.modified != 0 && found.modified < upload.begun;
  if (no_upload && (found.size != size || is_older)) std::rethrow_exception(no_upload);
  if (found.size != size)
    throw Error(KINORA_IO, at.uri() + ": " + kWriting + ": the server stored " + std::to_string(found.size) +
                               " of " + std::to_string(size) + " bytes of its parts; write it again");
}

void Client::abort_upload(const ObjectPath& at, const Upload& upload) {
  try {
    send({"DELETE", at, "the upload cannot be aborted", {{"uploadId", upload.id}}});
  } catch (const Error& e) {
    if (e.code() != KINORA_NOT_FOUND) throw;
  }
}

}  // namespace kinora::s3
