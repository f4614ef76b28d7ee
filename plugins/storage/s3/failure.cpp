#include "plugins/storage/s3/failure.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "plugins/storage/ranged/tries.hpp"

namespace kinora::s3 {
namespace {

template <size_t N>
bool is_one_of(std::string_view word, const std::array<std::string_view, N>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// The server's error code, else a word for its status.
std::string code_of(const HttpAnswer& a, const ServerError& said) {
  if (!said.code.empty()) return said.code;
  return a.status == 403 ? "AccessDenied" : a.status == 404 ? "NotFound" : "";
}

struct Remedy {
  int32_t code;
  std::string text;
};

Remedy remedy(const HttpAnswer& a, const ServerError& said, const std::string& source,
              const std::string& region) {
  const std::string code = code_of(a, said);
  if (code == "NoSuchBucket")
    return {KINORA_ERROR_NOT_FOUND, "no such bucket; check its name and the endpoint"};
  if (code == "NoSuchUpload")
    return {KINORA_ERROR_NOT_FOUND,
            "its upload was aborted meanwhile, by a lifecycle rule or another program; run it again"};
  if (code == "NoSuchKey" || code == "NotFound")
    return {KINORA_ERROR_NOT_FOUND, "no such object; check the name"};
  if (code == "RequestTimeTooSkewed")
    return {KINORA_ERROR_INVALID,
            "this machine's clock and the server's differ too much; set the clock (NTP)"};
  if (code == "SignatureDoesNotMatch")
    return {KINORA_ERROR_INVALID, "the secret key does not belong to the access key, or the region '" +
                                      region + "' is not the server's; check " + source};
  if (code == "InvalidAccessKeyId" || code == "InvalidClientTokenId")
    return {KINORA_ERROR_INVALID, "the server does not know the access key; check " + source};
  if (code == "ExpiredToken" || code == "TokenRefreshRequired" || code == "InvalidToken")
    return {KINORA_ERROR_INVALID, "the session's token is no longer valid; sign in again to renew " + source};
  if (code == "AccessDenied" || code == "AllAccessDisabled" || a.status == 401 || a.status == 403)
    return {KINORA_ERROR_INVALID,
            "access is denied to " + source + "; ask the bucket's owner for permission"};
  if (a.status == 412 || code == "InvalidRange")
    return {KINORA_ERROR_DATA, "it was changed while it was read; do not write to what a run reads"};
  if (code == "EntityTooLarge")
    return {KINORA_ERROR_INVALID, "it is larger than the server accepts; raise part_size"};
  if (a.status == 507 || code == "QuotaExceeded" || code.find("StorageFull") != code.npos)
    return {KINORA_ERROR_NO_MEMORY, "the server has no room left; free some there"};
  const std::string theirs = !said.region.empty() ? said.region : a.header("x-amz-bucket-region");
  if ((a.status >= 301 && a.status <= 308) || code == "AuthorizationHeaderMalformed")
    return {KINORA_ERROR_INVALID, "the bucket is in another region" + (theirs.empty() ? "" : ", " + theirs) +
                                      "; set region = \"" + (theirs.empty() ? "..." : theirs) +
                                      "\" in [storage.s3] or AWS_REGION"};
  if (a.code == CURLE_PEER_FAILED_VERIFICATION || a.code == CURLE_SSL_CACERT_BADFILE)
    return {KINORA_ERROR_INVALID,
            "the server's certificate is not trusted; name its authority's file by ca_file"};
  const bool passes = judge(a, said) == Verdict::again;
  if (passes && is_nobody(a))
    return {KINORA_ERROR_IO,
            "check the network and the address, endpoint in [storage.s3] or else AWS_ENDPOINT_URL_S3, and "
            "run it again"};
  return {
      passes ? KINORA_ERROR_IO : KINORA_ERROR_FAILED,
      passes ? "check the network and the endpoint, and run it again" : "check the endpoint and its options"};
}

void leave_out(std::string& text, const std::string& secret) {
  if (secret.size() < 4) return;
  for (size_t at; (at = text.find(secret)) != text.npos;) text.replace(at, secret.size(), "***");
}

std::string cause(const HttpAnswer& a, const ServerError& said) {
  if (a.code != CURLE_OK) return a.problem;
  std::string out = "HTTP " + std::to_string(a.status);
  if (!said.code.empty()) out += " " + said.code.substr(0, 128);
  if (!said.message.empty() && said.message != said.code) out += ": " + said.message.substr(0, 512);
  while (out.ends_with('.')) out.pop_back();
  return out;
}

}  // namespace

Verdict judge(const HttpAnswer& a, const ServerError& said) {
  constexpr std::array<std::string_view, 9> kAgain{"RequestTimeout",
                                                   "SlowDown",
                                                   "InternalError",
                                                   "ServiceUnavailable",
                                                   "BadDigest",
                                                   "OperationAborted",
                                                   "Throttling",
                                                   "XAmzContentSHA256Mismatch",
                                                   "ConditionalRequestConflict"};
  constexpr std::array<std::string_view, 5> kRenew{"ExpiredToken", "TokenRefreshRequired", "InvalidToken",
                                                   "InvalidAccessKeyId", "SignatureDoesNotMatch"};
  if (a.code == CURLE_OK && is_one_of(said.code, kRenew)) return Verdict::new_credentials;
  const bool is_named = a.code == CURLE_OK && is_one_of(said.code, kAgain);
  return may_pass(a) || is_named ? Verdict::again : Verdict::final;
}

Error failure(const std::string& subject, const HttpAnswer& answer, const ServerError& said,
              const Credentials* credentials, const std::string& region, int64_t tries) {
  const std::string source = credentials ? credentials->source : "requests without credentials (anonymous)";
  const Remedy r = remedy(answer, said, source, region);
  std::string why = cause(answer, said);
  if (credentials)
    for (const auto* secret : {&credentials->secret, &credentials->token, &credentials->key})
      leave_out(why, *secret);
  std::string text = subject + ": " + why;
  if (tries > 1) text += " (" + std::to_string(tries) + " tries)";
  return {r.code, text + ": " + r.text};
}

}  // namespace kinora::s3
