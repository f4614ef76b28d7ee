// The offset of every member of every public struct is asserted in its own header: a member without
// KINORA_SLOT could swap places with its neighbour, and everything would still compile.
#include <fstream>
#include <regex>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

namespace fs = std::filesystem;

std::string without_comments(const fs::path& header) {
  std::ifstream in(header);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const bool comment = text.compare(at, 2, "/*") == 0;
    if (!comment) out += text[at];
    at = comment ? std::min(text.find("*/", at + 2), text.size() - 2) + 2 : at + 1;
  }
  return out;
}

// The declared name in "int32_t (*read)(void* self, ...)", "const int64_t* shape" or "int64_t pairs[3]".
std::string member_of(const std::string& declaration) {
  static const std::regex function(R"(\(\*(\w+)\)\s*\()"), plain(R"((\w+)\s*(?:\[\w+\]\s*)?$)");
  std::smatch found;
  if (std::regex_search(declaration, found, function)) return found[1];
  return std::regex_search(declaration, found, plain) ? found[1].str() : "";
}

struct Header {
  std::set<std::string> members, structs;  // "kinora_str.size", "kinora_str"
  std::set<std::string> slots, sizes;      // the same, as asserted
};

Header read(const fs::path& file) {
  Header out;
  const std::string text = without_comments(file);
  // These structs contain no nested braces, so the first brace ends one.
  for (size_t at = 0; (at = text.find("struct kinora_", at)) != text.npos; at += 7) {
    const size_t begin = text.find_first_of("{;,)*", at);
    if (begin == text.npos || text[begin] != '{') continue;
    const size_t end = text.find('}', begin);
    std::string name = text.substr(at + 7, begin - at - 7);
    name.erase(name.find_last_not_of(" \n") + 1);
    out.structs.insert(name);
    for (size_t from = begin + 1, semicolon; (semicolon = text.find(';', from)) < end; from = semicolon + 1)
      out.members.insert(name + "." + member_of(text.substr(from, semicolon - from)));
  }
  static const std::regex slot(R"(KINORA_SLOT\((\w+), (\w+), \d+\);)"), size(R"(KINORA_SIZE\((\w+), \d+\);)");
  for (std::sregex_iterator i(text.begin(), text.end(), slot), end; i != end; ++i)
    out.slots.insert((*i)[1].str() + "." + (*i)[2].str());
  for (std::sregex_iterator i(text.begin(), text.end(), size), end; i != end; ++i) out.sizes.insert((*i)[1]);
  return out;
}

TEST(Slots, EveryMemberAndEverySizeOfEveryHeaderIsAsserted) {
  size_t structs = 0, members = 0;
  for (const auto& file : fs::directory_iterator(KINORA_ABI_HEADERS)) {
    SCOPED_TRACE(file.path().filename().string());
    const Header header = read(file.path());
    EXPECT_THAT(header.slots, testing::ContainerEq(header.members));
    EXPECT_THAT(header.sizes, testing::ContainerEq(header.structs));
    structs += header.structs.size();
    members += header.members.size();
  }
  // Lower bounds, so that the parser above has understood the headers; they only grow.
  EXPECT_GE(structs, 48u);
  EXPECT_GE(members, 373u);
}

}  // namespace
