// docs.aws.amazon.com/cli/latest/userguide/cli-configure-sourcing-external.html
#include <cstdio>
#include <memory>

#include <nlohmann/json.hpp>

#include "plugins/storage/s3/answers.hpp"
#include "plugins/storage/s3/credentials.hpp"
#include "kinora/error.hpp"

namespace kinora::s3 {

// The command's stderr is shown to the user, its stdout never.
Credentials run_credential_process(const std::string& command) {
  const std::string what = "credential_process: the command '" + command.substr(0, command.find(' ')) + "' ";
  struct Close {
    void operator()(FILE* f) const { ::pclose(f); }
  };
  std::unique_ptr<FILE, Close> pipe(::popen(command.c_str(), "re"));
  if (!pipe) throw Error(KINORA_INVALID, what + "cannot be started; check it in the profile");
  std::string text;
  char some[4096];
  for (size_t n; text.size() < 65536 && (n = std::fread(some, 1, sizeof some, pipe.get())) > 0;)
    text.append(some, n);
  if (const int status = ::pclose(pipe.release()); status != 0)
    throw Error(KINORA_INVALID, what + "failed; run it by hand to see why");
  const auto said = nlohmann::json::parse(text, nullptr, false);
  const auto field = [&](const char* name) {
    const auto it = said.is_object() ? said.find(name) : said.end();
    return it != said.end() && it->is_string() ? it->get<std::string>() : std::string();
  };
  Credentials out{field("AccessKeyId"), field("SecretAccessKey"), field("SessionToken"), ""};
  out.expires = nanoseconds_of(field("Expiration")) / 1'000'000'000;
  if (out.key.empty() || out.secret.empty())
    throw Error(
        KINORA_INVALID,
        what + "printed no JSON with AccessKeyId and SecretAccessKey; run it by hand to see what it does");
  return out;
}

}  // namespace kinora::s3
