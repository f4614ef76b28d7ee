#include "plugins/storage/s3/client.hpp"

#include <algorithm>
#include <exception>

#include "plugins/storage/s3/failure.hpp"
#include "plugins/storage/s3/object_path.hpp"
#include "plugins/storage/s3/signing.hpp"

namespace kinora::s3 {

using ranged::bytes_from;
using ranged::server_time;
using ranged::span_of;
using ranged::Tries;

namespace {

std::string first_of(std::initializer_list<std::string> candidates) {
  for (const auto& c : candidates)
    if (!c.empty()) return c;
  return {};
}

constexpr const char* kReading = "cannot be read";

bool is_success(const HttpAnswer& a) { return a.status == 200 || a.status == 206; }

constexpr const char* kWriting = "cannot be written";

std::vector<std::string> checked(std::string_view bytes, const char* type) {
  return {"Content-MD5: " + base64(md5_bytes(bytes)), std::string("Content-Type: ") + type,
          "x-amz-content-sha256: " + sha256_hex(bytes)};
}

}  // namespace

Client::Client(const Options& options)
    : options_(options), credentials_(std::make_shared<CredentialSource>(options.profile)) {
  options_.endpoint = first_of({options.endpoint, environment("AWS_ENDPOINT_URL_S3"),
                                environment("AWS_ENDPOINT_URL"), credentials_->setting("endpoint_url")});
  options_.region = first_of({options.region, environment("AWS_REGION"), environment("AWS_DEFAULT_REGION"),
                              credentials_->setting("region"), "us-east-1"});
  options_.ca_file =
      first_of({options.ca_file, environment("AWS_CA_BUNDLE"), credentials_->setting("ca_bundle")});
  endpoint_ = endpoint_of(options_);
  http_ = std::make_unique<ranged::Http>(
      ranged::HttpOptions{options_.ca_file, options_.connect_timeout, options_.timeout});
}

Client::~Client() {
  if (repeated_ > 0)
    log(Log::info, "s3: " + std::to_string(repeated_) + " of this process's " + std::to_string(requests_) +
                       " requests to " + endpoint_.host + " were repeated");
}

HttpAnswer Client::once(const Call& call, std::shared_ptr<const Credentials>& used) {
  used.reset();
  if (!options_.anonymous) {
    try {
      used = std::make_shared<const Credentials>(credentials_->get());
    } catch (const Error& e) {
      throw Error(e.code(), call.at.uri() + ": " + call.doing + ": " + e.what());
    }
  }
  ranged::HttpRequest r;
  r.method = call.method;
  r.url = endpoint_.url(call.at, call.query);
  r.headers = call.headers;
  r.body = call.body;
  r.range = call.range;
  r.to = call.to;
  r.room = call.room;
  r.stop = call.stop;
  r.ends_with_run = call.method != "DELETE";  // of an upload that is given up: its parts cost storage
  ++requests_;
  return http_->perform(used ? signed_request(std::move(r), *used, options_.region) : r);
}

void Client::retry_or_throw(const Call& call, const HttpAnswer& answer, const Credentials* used,
                            Tries& tries) {
  const ServerError said = read_error(answer.body);
  Verdict verdict = answer.is_ok() && said.code.empty() ? Verdict::again : judge(answer, said);
  if (verdict == Verdict::new_credentials)
    verdict = used && credentials_->renewed_since(*used) ? Verdict::again : Verdict::final;
  if (verdict == Verdict::again && is_nobody(answer) && options_.retries > 0 && !told_.exchange(true))
    log(Log::warn, call.at.uri() + ": " + call.doing + ": " + answer.problem + "; trying again, " +
                       std::to_string(options_.retries) + " times at most");
  if (verdict == Verdict::again && tries.another(answer, call.stop)) {
    ++repeated_;
    log(Log::debug, call.at.uri() + ": " + call.method + " failed (" +
                        (answer.code != CURLE_OK ? answer.problem : std::to_string(answer.status)) +
                        "), once more");
    return;
  }
  if (ranged::is_stopped(call.stop)) throw Error(KINORA_ERROR_CANCELLED, "cancelled");
  throw failure(call.at.uri() + ": " + call.doing + " (server " + endpoint_.host + ")", answer, said, used,
                options_.region, tries.count());
}

HttpAnswer Client::send(const Call& call, Tries& tries) {
  for (;;) {
    std::shared_ptr<const Credentials> used;
    HttpAnswer answer = once(call, used);
    if (answer.is_ok() && (!call.accept || call.accept(answer))) return answer;
    retry_or_throw(call, answer, used.get(), tries);
  }
}

HttpAnswer Client::send(const Call& call) {
  Tries tries(options_.retries);
  return send(call, tries);
}

// Status 412 says that the object has another ETag, or exists; 404 that there is none to compare with. 409 says that
// another request with a condition ran at the same time, which is asked again (failure.cpp).
std::optional<HttpAnswer> Client::send_if(const Call& call) {
  Tries tries(options_.retries);
  for (;;) {
    std::shared_ptr<const Credentials> used;
    HttpAnswer answer = once(call, used);
    const bool is_refused =
        answer.status == 412 || (answer.status == 404 && read_error(answer.body).code == "NoSuchKey");
    if (answer.code == CURLE_OK && is_refused) return std::nullopt;
    if (answer.is_ok() && (!call.accept || call.accept(answer))) return answer;
    retry_or_throw(call, answer, used.get(), tries);
  }
}

Listing Client::list(const ObjectPath& folder, const std::string& token) {
  Query query{{"delimiter", "/"}, {"encoding-type", "url"}, {"list-type", "2"}, {"prefix", folder.key}};
  if (!token.empty()) query.emplace_back("continuation-token", token);
  return page_of(folder, query);
}

Listing Client::list_from(const ObjectPath& folder, const std::string& after, uint64_t most) {
  Query query{{"encoding-type", "url"}, {"list-type", "2"}, {"prefix", folder.key}};
  query.emplace_back("max-keys", std::to_string(std::min<uint64_t>(most, 1000)));
  if (!after.empty()) query.emplace_back("start-after", after);
  return page_of(folder, query);
}

Listing Client::page_of(const ObjectPath& folder, const Query& query) {
  const ObjectPath bucket{folder.bucket, ""};
  const auto answer = send({"GET", bucket, "cannot be listed", query});
  try {
    return read_listing(answer.body);
  } catch (const Error& e) {
    throw Error(e.code(), folder.uri() + ": cannot be listed: " + e.what());
  }
}

void Client::remove(const ObjectPath& at) {
  head(at);  // since DELETE also succeeds if there is no object
  send({"DELETE", at, "cannot be removed"});
}

// Reading: ranged GETs that continue where a connection broke.

Opened Client::head(const ObjectPath& at) {
  const auto answer = send({"HEAD", at, kReading});
  const auto size = ranged::length_of(answer);
  if (!size)
    throw Error(KINORA_ERROR_DATA, at.uri() + ": cannot be read: the server does not say how large it is");
  return {*size, answer.header("etag"), "", server_time(answer.header("last-modified"))};
}

Opened Client::open(const ObjectPath& at, uint64_t first) {
  Opened out;
  Tries tries(options_.retries);
  for (;;) {
    out.first.resize(first);
    Call call{"GET", at, kReading};
    call.range = bytes_from(0, first);
    call.to = out.first.data();
    call.room = first;
    std::shared_ptr<const Credentials> used;
    const HttpAnswer a = once(call, used);
    if (a.code == CURLE_OK && a.status == 416) return head(at);  // it is empty: no byte 0
    const auto span = span_of(a);
    if (a.is_ok() && span && span->begin == 0 && (a.got > 0 || span->total == 0)) {
      out.first.resize(a.got);
      out.size = span->total;
      out.etag = a.header("etag");
      return out;
    }
    retry_or_throw(call, a, used.get(), tries);
  }
}

void Client::read(const ObjectPath& at, uint64_t offset, uint64_t size, char* to, const std::string& etag,
                  const std::atomic<bool>* stop) {
  Tries tries(options_.retries);
  for (uint64_t done = 0; done < size;) {
    Call call{"GET", at, kReading};
    if (!etag.empty()) call.headers = {"If-Match: " + etag};
    call.range = bytes_from(offset + done, size - done);
    call.to = to + done;
    call.room = size - done;
    call.stop = stop;
    std::shared_ptr<const Credentials> used;
    HttpAnswer a = once(call, used);
    if (is_success(a) && !etag.empty() && !a.header("etag").empty() && a.header("etag") != etag)
      throw Error(KINORA_ERROR_DATA,
                  at.uri() +
                      ": cannot be read: it was changed while it was read; do not write to what "
                      "a run reads");
    const auto span = span_of(a);
    if (is_success(a) && span && span->begin == offset + done) {
      done += a.got;  // also when the connection broke
      if (done == size || tries.goes_on(a)) continue;
    } else if (a.is_ok() && a.status == 200 && a.header("content-range").empty()) {
      throw Error(KINORA_ERROR_UNSUPPORTED,
                  at.uri() +
                      ": cannot be read: the server returns only whole objects, not ranges of them; is the "
                      "endpoint an S3 server?");
    }
    retry_or_throw(call, a, used.get(), tries);
  }
}

// Writing: one PUT, or a multipart upload. Content-MD5 and the signed SHA-256 let the server check
// every byte; damaged data is sent again.

void Client::put(const ObjectPath& at, std::string_view bytes) {
  send({"PUT", at, kWriting, {}, checked(bytes, "application/octet-stream"), bytes});
}

std::optional<std::string> Client::put_if(const ObjectPath& at, std::string_view bytes,
                                          const std::string& etag) {
  Call call{"PUT", at, kWriting, {}, checked(bytes, "application/octet-stream"), bytes};
  call.headers.push_back(etag.empty() ? "If-None-Match: *" : "If-Match: " + etag);
  call.accept = [](const HttpAnswer& a) { return !a.header("etag").empty(); };
  const auto answer = send_if(call);
  return answer ? std::optional(answer->header("etag")) : std::nullopt;
}

bool Client::remove_if(const ObjectPath& at, const std::string& etag) {
  Call call{"DELETE", at, "cannot be removed"};
  call.headers = {"If-Match: " + etag};
  return send_if(call).has_value();
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
    if (e.code() != KINORA_ERROR_NOT_FOUND) throw;
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
    throw Error(KINORA_ERROR_IO, at.uri() + ": " + kWriting + ": the server stored " +
                                     std::to_string(found.size) + " of " + std::to_string(size) +
                                     " bytes of its parts; write it again");
}

void Client::abort_upload(const ObjectPath& at, const Upload& upload) {
  try {
    send({"DELETE", at, "the upload cannot be aborted", {{"uploadId", upload.id}}});
  } catch (const Error& e) {
    if (e.code() != KINORA_ERROR_NOT_FOUND) throw;
  }
}

}  // namespace kinora::s3
