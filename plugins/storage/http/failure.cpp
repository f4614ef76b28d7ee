#include "plugins/storage/http/failure.hpp"

#include "plugins/storage/ranged/tries.hpp"

namespace kinora::web {
namespace {

struct Remedy {
  int32_t code;
  std::string text;
};

Remedy remedy_of(const ranged::HttpAnswer& a) {
  switch (a.code) {
    case CURLE_UNSUPPORTED_PROTOCOL:
      return {
          KINORA_ERROR_INVALID,
          "the server redirects to an address that is not followed: of http to http or https, of https to "
          "https only; give the final address"};
    case CURLE_REMOTE_ACCESS_DENIED:
      return {KINORA_ERROR_INVALID, "servers of the Internet are not followed into a network"};
    case CURLE_TOO_MANY_REDIRECTS:
      return {KINORA_ERROR_INVALID, "the server redirects without end; check the address"};
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
      return {
          KINORA_ERROR_INVALID,
          "the server's certificate is not trusted; name its authority's file by ca_file in [storage.https]"};
    default:
      break;
  }
  if (a.status == 404 || a.status == 410) return {KINORA_ERROR_NOT_FOUND, "no such file; check the address"};
  if (a.status == 401 || a.status == 403 || a.status == 407)
    return {
        KINORA_ERROR_INVALID,
        "access is denied, or there is no such file; check the address, and put the host with your name and "
        "password into ~/.netrc if it needs them"};
  if (a.is_ok() || is_worth_repeating(a))
    return {KINORA_ERROR_IO, "check the network and the address, and run it again"};
  return {KINORA_ERROR_FAILED, "check the address, and that the server offers files"};
}

}  // namespace

bool is_worth_repeating(const ranged::HttpAnswer& a) {
  // A redirect that is not followed stays so.
  return may_pass(a) && a.code != CURLE_UNSUPPORTED_PROTOCOL && a.code != CURLE_REMOTE_ACCESS_DENIED;
}

std::string cause_of(const ranged::HttpAnswer& a) {
  if (a.code != CURLE_OK) return a.problem;
  return a.is_ok() ? "the server sent another range than it was asked for"
                   : "HTTP " + std::to_string(a.status);
}

Error failure(const std::string& uri, const ranged::HttpAnswer& answer, int64_t tries) {
  const Remedy remedy = remedy_of(answer);
  std::string text = uri + ": cannot be read: " + cause_of(answer);
  if (tries > 1) text += " (" + std::to_string(tries) + " tries)";
  return {remedy.code, text + ": " + remedy.text};
}

}  // namespace kinora::web
