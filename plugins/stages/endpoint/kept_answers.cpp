#include "kept_answers.hpp"

#include <fstream>
#include <iterator>

#include <fmt/format.h>
#include <openssl/evp.h>

#include "answers.hpp"
#include "kinora/io.hpp"

namespace kinora::endpoint {
namespace {

namespace fs = std::filesystem;

std::string sha256_hex(std::string_view bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest, &size, EVP_sha256(), nullptr) != 1)
    throw Error(KINORA_ERROR_FAILED, "OpenSSL has no SHA-256");
  std::string out;
  for (unsigned i = 0; i < size; ++i) out += fmt::format("{:02x}", digest[i]);
  return out;
}

// A file that is no JSON object counts as absent, as a pipe does: the request is sent again.
std::optional<Json> read(const fs::path& file) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return std::nullopt;
  std::ifstream in(file, std::ios::binary);
  if (!in) return std::nullopt;
  Json answer = parsed(std::string(std::istreambuf_iterator<char>(in), {}));
  if (!answer.is_object()) return std::nullopt;
  return answer;
}

std::string file_of(const std::string& body) { return sha256_hex(body) + ".json"; }

}  // namespace

KeptAnswers::KeptAnswers(std::string_view out, const std::string& stage, std::string_view key) {
  std::error_code error;
  const fs::path answers = fs::path(out) / "answers";
  if (out.empty() || !fs::is_directory(answers, error)) return;
  // Hashed, since a key may have characters that a file name cannot; in 256 folders, since a job may have
  // millions of samples.
  const std::string name = sha256_hex(key).substr(0, 32);
  const fs::path below = fs::path(stage) / name.substr(0, 2) / name.substr(2);
  folder_ = answers / below;
  const fs::path job = (fs::path(out) / "").parent_path();  // without a trailing slash
  for (const char* aside : {".before", ".unfinished"})
    for (const char* kept : {".answers", "answers"})
      of_before_.push_back(job.parent_path() / ("." + job.filename().string() + aside) / kept / below);
}

std::optional<Json> KeptAnswers::find(const std::string& body) const {
  if (folder_.empty()) return std::nullopt;
  const std::string name = file_of(body);
  if (auto own = read(folder_ / name)) return own;
  for (const auto& folder : of_before_)
    if (auto answer = read(folder / name)) {
      keep(body, *answer);  // the old folder is removed when the job is done
      return answer;
    }
  return std::nullopt;
}

void KeptAnswers::keep(const std::string& body, const Json& answer) const {
  if (folder_.empty()) return;
  try {
    Writer writer((folder_ / file_of(body)).string());
    writer.write(dump(answer));
    writer.commit();
  } catch (const Error& e) {
    log(Log::warn,
        fmt::format("cannot keep an answer: {}; if this run is killed, the request is sent again", e.what()));
  }
}

void KeptAnswers::forget() const {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
  for (const auto& folder : of_before_) fs::remove_all(folder, ignored);
}

}  // namespace kinora::endpoint
