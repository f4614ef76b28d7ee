#include "plugins/storage/s3/client.hpp"

#include "plugins/storage/s3/endpoint.hpp"
#include "plugins/storage/s3/failure.hpp"

namespace kinora::s3 {
namespace {

std::string first_of(std::initializer_list<std::string> candidates) {
  for (const auto& c : candidates)
    if (!c.empty()) return c;
  return {};
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
  http_ = std::make_unique<Http>(options_);
}

Client::~Client() {
  if (repeated_ > 0)
    log(Log::info, "s3: " + std::to_string(repeated_) + " of this process's " + std::to_string(requests_) + " requests to " +
                       endpoint_.host + " were repeated");
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
  HttpRequest r;
  r.method = call.method;
  r.url = endpoint_.url(call.at, call.query);
  r.headers = call.headers;
  r.body = call.body;
  r.range = call.range;
  r.to = call.to;
  r.room = call.room;
  r.stop = call.stop;
  ++requests_;
  return http_->perform(r, used.get());
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
  if (call.stop && *call.stop) throw Error(KINORA_CANCELLED, "cancelled");
  throw failure(call.at.uri() + ": " + call.doing, answer, said, used, options_.region, tries.count());
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

Listing Client::list(const ObjectPath& folder, const std::string& token) {
  Query query{{"delimiter", "/"}, {"encoding-type", "url"}, {"list-type", "2"}, {"prefix", folder.key}};
  if (!token.empty()) query.emplace_back("continuation-token", token);
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

}  // namespace kinora::s3
