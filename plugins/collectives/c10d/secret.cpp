#include "plugins/collectives/c10d/secret.hpp"

#include <cstdlib>
#include <fstream>

#include <sys/stat.h>

#include "kinora/error.hpp"

namespace kinora {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

std::string shared_secret() {
  constexpr size_t kLeast = 16;  // a short one can be guessed by trying
  std::string secret = variable("KINORA_SECRET"), from = "KINORA_SECRET";
  if (const std::string file = variable("KINORA_SECRET_FILE"); secret.empty() && !file.empty()) {
    struct stat info {};
    if (::stat(file.c_str(), &info) != 0 || !S_ISREG(info.st_mode))
      throw Error(KINORA_ERROR_INVALID, "KINORA_SECRET_FILE: " + file + " is not a file on this machine");
    if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0)
      throw Error(KINORA_ERROR_INVALID,
                  "KINORA_SECRET_FILE: other users may read " + file + "; run: chmod 600 " + file);
    std::ifstream in(file);
    if (!std::getline(in, secret))
      throw Error(KINORA_ERROR_INVALID, "KINORA_SECRET_FILE: " + file + " is empty or cannot be read");
    from = file;
  } else if (secret.empty()) {
    return "";
  }
  if (secret.size() < kLeast)
    throw Error(KINORA_ERROR_INVALID,
                from + ": the secret has " + std::to_string(secret.size()) +
                    " characters; give at least 16, such as those of: openssl rand -hex 16");
  return secret;
}

}  // namespace kinora
