// Credentials for requests: from the environment and AWS's usual files.
//
//   AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN   unless a profile is named by the option
//   AWS_SHARED_CREDENTIALS_FILE, else ~/.aws/credentials          [profile]: aws_access_key_id, ...
//   AWS_CONFIG_FILE, else ~/.aws/config                           [profile NAME]: the same,
//                                                                 credential_process, region, endpoint_url, ca_bundle
//
// Keys and tokens are never written anywhere; an error names only their source.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace kinora::s3 {

struct Credentials {
  std::string key, secret, token;
  std::string source;   // for messages: "the environment", "profile 'default' of /home/me/.aws/credentials"
  int64_t expires = 0;  // seconds since 1970; 0: unknown
  bool same_keys(const Credentials& o) const {
    return key == o.key && secret == o.secret && token == o.token;
  }
};

// The sections of such a file, by name; a "[profile x]" is "x". Lines that are indented below a key without a
// value belong to that key and are ignored.
using Sections = std::map<std::string, std::map<std::string, std::string>>;
Sections read_profile_file(const std::string& path);  // empty if the file does not exist

// [any-thread]
class CredentialSource {
 public:
  explicit CredentialSource(const std::string& profile);
  // Reads again if a file has changed or the last credentials have expired. Throws
  // Error(KINORA_ERROR_INVALID) that names the places searched.
  Credentials get();
  // After the server rejected these: reads again. Returns false if they are still the same.
  bool renewed_since(const Credentials& refused);
  // "region", "endpoint_url" or "ca_bundle" of the profile; empty if absent.
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

// Runs the command of `credential_process` as AWS's tools do, and parses its output: {"Version": 1,
// "AccessKeyId", ...}. Throws Error(KINORA_ERROR_INVALID).
Credentials run_credential_process(const std::string& command);

// The variable's value; empty if it is not set.
std::string environment(const char* name);

}  // namespace kinora::s3
