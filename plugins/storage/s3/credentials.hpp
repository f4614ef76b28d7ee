// Whose requests these are: from the environment and AWS's usual files.
//
//   AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN   unless a profile is named by the option
//   AWS_SHARED_CREDENTIALS_FILE, else ~/.aws/credentials          [profile]: aws_access_key_id, ...
//   AWS_CONFIG_FILE, else ~/.aws/config                           [profile NAME]: the same,
//   credential_process,
//                                                                 region, endpoint_url, ca_bundle
//
// Neither keys nor tokens are ever written anywhere; an error names only where they are from.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "options.hpp"

namespace kinora::s3 {

struct Credentials {
  std::string key, secret, token;
  std::string source;   // for messages: "the environment", "profile 'default' of /home/me/.aws/credentials"
  int64_t expires = 0;  // seconds since 1970; 0: not known
  bool same_keys(const Credentials& o) const {
    return key == o.key && secret == o.secret && token == o.token;
  }
};

// The sections of such a file, by name; a "[profile x]" is "x". Lines that are indented below a key without a
// value belong to that key and are left out.
using Sections = std::map<std::string, std::map<std::string, std::string>>;
Sections read_profile_file(const std::string& path);  // empty if there is none

// [any-thread]
class CredentialSource {
 public:
  explicit CredentialSource(const std::string& profile);
  // Read anew when a file has changed or the time of the last ones is up. Throws Error(KINORA_INVALID) that
  // says where was looked.
  Credentials get();
  // After the server refused these: read anew. False if they are still the same.
  bool renewed_since(const Credentials& refused);
  // "region", "endpoint_url" or "ca_bundle" of the profile; empty: not there.
  std::string setting(const std::string& name) const;

 private:
  Credentials read() const;
  Credentials of_section(const std::string& file, const std::map<std::string, std::string>& section) const;
  std::vector<int64_t> stamp() const;
  std::string profile_, credentials_file_, config_file_;
  bool from_environment_ = false;
  std::mutex mutex_;
  Credentials last_;
  std::vector<int64_t> read_at_;  // stamp() when they were read; empty: never
};

// What the command of `credential_process` prints, as AWS's tools run it: {"Version": 1, "AccessKeyId", ...}.
// Throws Error(KINORA_INVALID).
Credentials run_credential_process(const std::string& command);

// The environment's value; empty if it is not set.
std::string environment(const char* name);

}  // namespace kinora::s3
