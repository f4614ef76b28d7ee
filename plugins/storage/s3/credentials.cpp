#include "plugins/storage/s3/credentials.hpp"

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <memory>

#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "kinora/error.hpp"
#include "plugins/storage/s3/answers.hpp"

namespace kinora::s3 {
namespace {

constexpr int64_t kMargin = 300;  // seconds before they expire when temporary credentials are renewed

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r"), end = text.find_last_not_of(" \t\r");
  return begin == text.npos ? std::string() : text.substr(begin, end - begin + 1);
}

std::string usual_file(const char* variable, const char* name) {
  const std::string given = environment(variable), home = environment("HOME");
  return !given.empty() ? given : home.empty() ? std::string() : home + "/.aws/" + name;
}

std::string value(const std::map<std::string, std::string>& section, const char* name) {
  const auto it = section.find(name);
  return it == section.end() ? std::string() : it->second;
}

}  // namespace

std::string environment(const char* name) {
  const char* found = std::getenv(name);
  return found ? found : "";
}

// A library's INI reader would take the indented lines of AWS's nested settings for keys of the section.
Sections read_profile_file(const std::string& path) {
  Sections out;
  std::ifstream in(path);
  std::string section;
  bool nested = false;
  for (std::string line; std::getline(in, line);) {
    const std::string text = trimmed(line);
    if (text.empty() || text[0] == '#' || text[0] == ';') continue;
    if (text[0] == '[') {
      section = trimmed(text.substr(1, text.find(']') - 1));
      if (section.starts_with("profile ")) section = trimmed(section.substr(8));
      nested = false;
      out[section];
      continue;
    }
    const size_t equals = text.find('=');
    const bool indented = line[0] == ' ' || line[0] == '\t';
    if (equals == text.npos || (nested && indented)) continue;
    const std::string given = trimmed(text.substr(equals + 1));
    nested = given.empty();
    if (!nested) out[section][trimmed(text.substr(0, equals))] = given;
  }
  return out;
}

CredentialSource::CredentialSource(const std::string& profile)
    : profile_(profile),
      credentials_file_(usual_file("AWS_SHARED_CREDENTIALS_FILE", "credentials")),
      config_file_(usual_file("AWS_CONFIG_FILE", "config")) {
  from_environment_ = profile.empty() && !environment("AWS_ACCESS_KEY_ID").empty();
  for (const char* variable : {"AWS_PROFILE", "AWS_DEFAULT_PROFILE"})
    if (profile_.empty()) profile_ = environment(variable);
  if (profile_.empty()) profile_ = "default";
}

std::string CredentialSource::setting(const std::string& name) const {
  for (const auto& file : {config_file_, credentials_file_}) {
    const auto sections = read_profile_file(file);
    if (const auto it = sections.find(profile_); it != sections.end() && it->second.contains(name))
      return it->second.at(name);
  }
  return {};
}

Credentials CredentialSource::of_section(const std::string& file,
                                         const std::map<std::string, std::string>& section) const {
  const std::string source = "profile '" + profile_ + "' of " + file;
  if (const auto command = value(section, "credential_process");
      !command.empty() && value(section, "aws_access_key_id").empty()) {
    auto out = run_credential_process(command);
    out.source = "the credential_process of " + source;
    return out;
  }
  return {value(section, "aws_access_key_id"), value(section, "aws_secret_access_key"),
          value(section, "aws_session_token"), source};
}

Credentials CredentialSource::read() const {
  if (from_environment_)
    return {environment("AWS_ACCESS_KEY_ID"), environment("AWS_SECRET_ACCESS_KEY"),
            environment("AWS_SESSION_TOKEN"), "the environment (AWS_ACCESS_KEY_ID)"};
  std::string other;
  for (const auto& file : {credentials_file_, config_file_}) {
    const auto sections = read_profile_file(file);
    const auto it = sections.find(profile_);
    if (it == sections.end()) continue;
    auto found = of_section(file, it->second);
    if (!found.key.empty() && !found.secret.empty()) return found;
    for (const char* way : {"sso_session", "sso_start_url", "role_arn", "web_identity_token_file"})
      if (it->second.contains(way)) other = way;
  }
  if (!other.empty())
    throw Error(KINORA_ERROR_INVALID, "profile '" + profile_ + "' signs in by " + other +
                                          ", which needs AWS's own program: give another profile the line "
                                          "credential_process = aws configure export-credentials --profile " +
                                          profile_ + " --format process, and name that profile");
  throw Error(KINORA_ERROR_INVALID,
              "no credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set, and profile '" +
                  profile_ + "' has none in " + credentials_file_ + " or " + config_file_ +
                  "; set them, name another profile, or set anonymous = true for a public bucket");
}

// Changes with the files: device, file, size and time of each.
std::vector<int64_t> CredentialSource::stamp() const {
  std::vector<int64_t> out;
  for (const auto& file : {credentials_file_, config_file_}) {
    struct stat info {};
    if (from_environment_ || ::stat(file.c_str(), &info) != 0) info = {};
    for (const int64_t part :
         {static_cast<int64_t>(info.st_ino), static_cast<int64_t>(info.st_size),
          static_cast<int64_t>(info.st_mtim.tv_sec), static_cast<int64_t>(info.st_mtim.tv_nsec)})
      out.push_back(part);
  }
  return out;
}

Credentials CredentialSource::get() {
  const std::lock_guard lock(mutex_);
  const auto now = stamp();
  const bool ends = last_.expires != 0 && std::time(nullptr) > last_.expires - kMargin;
  if (now != read_at_ || ends) last_ = read(), read_at_ = now;
  return last_;
}

bool CredentialSource::renewed_since(const Credentials& refused) {
  {
    const std::lock_guard lock(mutex_);
    if (last_.same_keys(refused)) read_at_.clear();  // another thread may have read new ones already
  }
  return !get().same_keys(refused);
}

// docs.aws.amazon.com/cli/latest/userguide/cli-configure-sourcing-external.html. The command's stderr is
// shown to the user, its stdout never.
Credentials run_credential_process(const std::string& command) {
  const std::string what = "credential_process: the command '" + command.substr(0, command.find(' ')) + "' ";
  struct Close {
    void operator()(FILE* f) const { ::pclose(f); }
  };
  std::unique_ptr<FILE, Close> pipe(::popen(command.c_str(), "re"));
  if (!pipe) throw Error(KINORA_ERROR_INVALID, what + "cannot be started; check it in the profile");
  std::string text;
  char some[4096];
  for (size_t n; text.size() < 65536 && (n = std::fread(some, 1, sizeof some, pipe.get())) > 0;)
    text.append(some, n);
  if (const int status = ::pclose(pipe.release()); status != 0)
    throw Error(KINORA_ERROR_INVALID, what + "failed; run it by hand to see why");
  const auto said = nlohmann::json::parse(text, nullptr, false);
  const auto field = [&](const char* name) {
    const auto it = said.is_object() ? said.find(name) : said.end();
    return it != said.end() && it->is_string() ? it->get<std::string>() : std::string();
  };
  Credentials out{field("AccessKeyId"), field("SecretAccessKey"), field("SessionToken"), ""};
  out.expires = nanoseconds_of(field("Expiration")) / 1'000'000'000;
  if (out.key.empty() || out.secret.empty())
    throw Error(
        KINORA_ERROR_INVALID,
        what + "printed no JSON with AccessKeyId and SecretAccessKey; run it by hand to see what it does");
  return out;
}

}  // namespace kinora::s3
