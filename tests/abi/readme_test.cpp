// The code in sdk/README.md equals the template's: an example that is not compiled goes stale.
#include <fstream>
#include <regex>
#include <sstream>

#include <gtest/gtest.h>

#include "core/plugin/manifest.hpp"

namespace kinora::core::test {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> lines_of(const fs::path& file) {
  std::ifstream in(fs::path(KINORA_SDK_FOLDER) / file);
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

// The lines from `first` up to the line for which `ends` holds.
std::vector<std::string> part(const std::vector<std::string>& lines, const std::string& first,
                              const std::function<bool(const std::string&)>& ends) {
  auto begin = std::find(lines.begin(), lines.end(), first);
  if (begin == lines.end()) return {};
  return {begin + 1, std::find_if(begin + 1, lines.end(), ends)};
}

bool is_gap(const std::string& line) {
  return line.find_first_not_of(" .") == line.npos && line.ends_with("...");
}

TEST(SdkReadme, CodeIsTheTemplatesWithGaps) {
  const auto shown = part(lines_of("README.md"), "```cpp", [](const auto& line) { return line == "```"; });
  const auto file = lines_of("template/brightness.cpp");
  ASSERT_GT(shown.size(), 20u);
  auto at = file.begin();
  bool gap = true;  // lines before the first one are left out
  for (const auto& line : shown) {
    if (is_gap(line)) {
      gap = true;
      continue;
    }
    const auto found = gap ? std::find(at, file.end(), line) : at;
    ASSERT_TRUE(found != file.end() && *found == line) << "differs from the template: " << line;
    at = found + 1;
    gap = false;
  }
}

// Words of the ABI that the document uses are words of its headers.
TEST(SdkReadme, NamesWhatExists) {
  std::string all;
  for (const char* folder : {"include", "cmake", "template"})
    for (const auto& file : fs::recursive_directory_iterator(fs::path(KINORA_SDK_FOLDER) / folder)) {
      if (!file.is_regular_file()) continue;
      std::ifstream in(file.path());
      all += std::string{std::istreambuf_iterator<char>(in), {}};
    }
  static const std::regex word(R"(\b(?:kinora_[a-z_]+|KINORA_[A-Z_]+)\b)");
  size_t n = 0;
  for (const auto& line : lines_of("README.md"))
    for (std::sregex_iterator i(line.begin(), line.end(), word), end; i != end; ++i, ++n)
      EXPECT_NE(all.find(i->str()), all.npos) << i->str();
  EXPECT_GT(n, 20u);
}

// The sampler's step is the template's.
TEST(SdkReadme, TheSamplersStepIsTheTemplates) {
  const auto readme = lines_of("README.md"), file = lines_of("template/kinds/sampler.cpp.in");
  const auto section = std::find(readme.begin(), readme.end(), "## A sampler");
  const auto code = std::find(section, readme.end(), "```cpp");
  size_t n = 0;
  for (auto line = code + 1; line < readme.end() && *line != "```"; ++line, ++n)
    EXPECT_NE(std::find(file.begin(), file.end(), *line), file.end()) << *line;
  EXPECT_EQ(n, 3u);
}

TEST(SdkReadme, ManifestIsTheTemplates) {
  const auto outside = [](const std::string& line) { return !line.empty() && !line.starts_with("    "); };
  std::string text = "[plugin]\n";
  for (const auto& line : part(lines_of("README.md"), "    [plugin]", outside))
    text += (line.empty() ? line : line.substr(4)) + "\n";
  std::ostringstream file;
  file << std::ifstream(fs::path(KINORA_SDK_FOLDER) / "template/plugin.toml").rdbuf();
  const auto shown = parse_manifest(text, "README.md"), real = parse_manifest(file.str(), "plugin.toml");
  ASSERT_TRUE(shown) << shown.failure().message;
  ASSERT_TRUE(real);
  // The notes after the values exist only in the README.
  std::istringstream in(text);
  std::string plain;
  for (std::string line; std::getline(in, line);)
    plain += line.substr(0, line.find_last_not_of(' ', line.find("  # ")) + 1) + "\n";
  while (plain.ends_with("\n\n")) plain.pop_back();
  EXPECT_EQ(plain, file.str());
}

}  // namespace
}  // namespace kinora::core::test
