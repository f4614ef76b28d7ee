#include "apps/serve/multipart.hpp"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinora/error.hpp"

namespace kinora::serve {
namespace multipart_test {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

struct Part {
  std::string name, value;  // or the bytes of the file
  std::string file_name{};
  bool is_file = false;
  bool operator==(const Part& o) const {
    return std::tie(name, value, file_name, is_file) == std::tie(o.name, o.value, o.file_name, o.is_file);
  }
};

void PrintTo(const Part& p, std::ostream* out) {
  *out << p.name << "=" << testing::PrintToString(p.value) << " " << p.file_name
       << (p.is_file ? " file" : "");
}

std::string bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class Multipart : public testing::Test {
 protected:
  Multipart() {
    std::string name = (fs::temp_directory_path() / "kinora-multipart-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    fs::create_directories(folder_ / "files");
  }
  ~Multipart() override { fs::remove_all(folder_); }

  std::vector<Part> read(const std::string& body, const std::string& boundary,
                         const FormLimits& limits = {}) const {
    std::ofstream(folder_ / "body", std::ios::binary) << body;
    std::vector<Part> out;
    for (const auto& part : read_form(folder_ / "body", "multipart/form-data; boundary=" + boundary,
                                      folder_ / "files", limits)) {
      const std::string value = part.file ? bytes_of(part.file->path()) : part.value;
      EXPECT_EQ(part.bytes, value.size());
      out.push_back({part.name, value, part.file_name, part.file != nullptr});
    }
    return out;
  }
  // Why it is refused; "": it is not.
  std::string refusal(const std::string& body, const std::string& boundary,
                      const FormLimits& limits = {}) const {
    try {
      read(body, boundary, limits);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), KINORA_ERROR_INVALID);
      return e.what();
    }
    return "";
  }
  bool has_no_files() const { return fs::is_empty(folder_ / "files"); }
  fs::path folder_;
};

// Writes a body as a client's library does, independent of the reader.
std::string written(const std::vector<Part>& parts, const std::string& boundary) {
  std::string out;
  for (const auto& part : parts) {
    out += "--" + boundary + "\r\nContent-Disposition: form-data; name=\"" + part.name + "\"";
    if (part.is_file)
      out += "; filename=\"" + part.file_name + "\"\r\nContent-Type: application/octet-stream";
    out += "\r\n\r\n" + part.value + "\r\n";
  }
  return out + "--" + boundary + "--\r\n";
}

const std::string kPng("\x89PNG\r\n\x1a\n\0--\r\n", 13);
const std::vector<Part> kParts{
    {"prompt", "a boat"}, {"negative_prompt", ""}, {"input_reference", kPng, "a.png", true}};

struct Sample {
  std::string boundary, body;
};

// Bodies that curl 7.88 -F, httpx 0.28 and Python's email.mime (policy HTTP) wrote.
std::vector<Sample> samples() {
  const std::string curl = "------------------------cdd3c7c1aadc319b";
  const std::string httpx = "81a758a9c90114f95cb9a007717808bd";
  const std::string email = "===============7330845974216740156==";
  const auto as_curl = [](const std::string& b) {
    return "--" + b + "\r\nContent-Disposition: form-data; name=\"prompt\"\r\n\r\na boat\r\n--" + b +
           "\r\nContent-Disposition: form-data; name=\"negative_prompt\"\r\n\r\n\r\n--" + b +
           "\r\nContent-Disposition: form-data; name=\"input_reference\"; filename=\"a.png\"\r\n"
           "Content-Type: image/png\r\n\r\n" +
           kPng + "\r\n--" + b + "--\r\n";
  };
  const std::string as_email =
      "--" + email +
      "\r\nContent-Type: text/plain\r\nMIME-Version: 1.0\r\nContent-Disposition: form-data; "
      "name=\"prompt\"\r\n\r\na boat\r\n--" +
      email +
      "\r\nContent-Type: text/plain\r\nMIME-Version: 1.0\r\nContent-Disposition: form-data; "
      "name=\"negative_prompt\"\r\n\r\n\r\n--" +
      email +
      "\r\nContent-Type: image/png\r\nMIME-Version: 1.0\r\nContent-Disposition: form-data; "
      "name=\"input_reference\"; filename=\"a.png\"\r\n\r\n" +
      kPng + "\r\n--" + email + "--\r\n";
  return {{curl, as_curl(curl)}, {httpx, as_curl(httpx)}, {"\"" + email + "\"", as_email}};
}

TEST_F(Multipart, ReadsWhatClientsWrite) {
  for (const auto& sample : samples())
    EXPECT_EQ(read(sample.body, sample.boundary), kParts) << sample.boundary;
  EXPECT_TRUE(has_no_files());  // each file ends with its part
}

TEST_F(Multipart, ACutIsAnErrorOrChangesNothing) {
  for (const auto& [boundary, body] : samples())
    for (size_t size = 0; size < body.size(); ++size) {
      std::vector<Part> parts;
      const std::string cut = body.substr(0, size);
      try {
        parts = read(cut, boundary);
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), KINORA_ERROR_INVALID);
        EXPECT_LT(size, body.size() - 2) << e.what();  // its last line may lack its end
        continue;
      }
      EXPECT_GE(size, body.size() - 2);
      EXPECT_EQ(parts, kParts);
    }
  EXPECT_TRUE(has_no_files());
}

TEST_F(Multipart, ValuesMayHoldNearlyABoundary) {
  const std::vector<Part> near{{"a", "--b0undary"},
                               {"b", "\r\n--b0undar\r\n--b0undar"},
                               {"c", "b0undary--"},
                               {"d", "\r\n\r\n"},
                               {"e", "\r"},
                               {"f", "\r\n-\r\n--\r\n--b0\r\r\n"},
                               {"g", "\r\n--b0undar", "g.bin", true},
                               {"h", "--b0undary--\r\n", "h.bin", true},
                               {"i", "\r\n", "", true}};
  EXPECT_EQ(read(written(near, "b0undary"), "b0undary"), near);
  EXPECT_THAT(refusal(written({{"a", "x\r\n--b0undaryx"}}, "b0undary"), "b0undary"),
              HasSubstr("more letters than its header says"));
}

TEST_F(Multipart, ReadsRandomBytesAsTheyAre) {
  std::mt19937_64 random(1);
  const std::string letters("\r\n-bc\"\0;", 8);
  for (int round = 0; round < 300; ++round) {
    std::vector<Part> parts(1 + random() % 5);
    for (size_t i = 0; i < parts.size(); ++i) {
      auto& part = parts[i];
      part.name = "part" + std::to_string(i);
      part.is_file = random() % 2 == 0;
      if (part.is_file) part.file_name = "f" + std::to_string(i);
      for (auto left = random() % 60; left > 0; --left) part.value += letters[random() % letters.size()];
      // The client's choice of a boundary sees to this.
      for (size_t at; (at = ("\r\n" + part.value).find("\r\n--bc")) != std::string::npos;)
        part.value.erase(at, 1);
    }
    ASSERT_EQ(read(written(parts, "bc"), "bc"), parts) << "round " << round;
  }
}

TEST_F(Multipart, FilesAreWholeWhereverTheReaderStops) {
  for (size_t size = 65'300; size < 65'600; size += 3) {
    std::string bytes(size, 'x');
    bytes.back() = '\r';
    const std::vector<Part> parts{{"f", bytes, "f", true}, {"a", "1"}};
    ASSERT_TRUE(read(written(parts, "bb"), "bb") == parts) << size;
  }
}

TEST_F(Multipart, NamesAreThoseOfTheHeader) {
  const auto body = [](const std::string& header) { return "--b\r\n" + header + "\r\n\r\nv\r\n--b--\r\n"; };
  const std::vector<std::pair<std::string, Part>> cases{
      {"Content-Disposition: form-data; name=a", {"a", "v"}},
      {"content-disposition:form-data;name=\"a;b\"", {"a;b", "v"}},
      {"Content-Type: text/plain; name=\"x\"\r\nCONTENT-DISPOSITION: form-data; name=\"a\"", {"a", "v"}},
      {"Content-Disposition: form-data; name=\"a\\\"b\\\\c\"", {"a\"b\\c", "v"}},
      {"Content-Disposition: form-data; NAME=\"a\"; FileName=\"../../etc/x y\"",
       {"a", "v", "../../etc/x y", true}},
      {"Content-Disposition: form-data; filename=\"name=z\"; name=\"a\"", {"a", "v", "name=z", true}}};
  for (const auto& [header, part] : cases) EXPECT_THAT(read(body(header), "b"), ElementsAre(part)) << header;
  EXPECT_THAT(refusal(body("Content-Disposition: form-data"), "b"), HasSubstr("no name"));
  EXPECT_THAT(refusal(body("Content-Disposition: form-data; name=\"\""), "b"), HasSubstr("no name"));
  EXPECT_THAT(refusal(body("Content-Type: text/plain"), "b"), HasSubstr("no Content-Disposition"));
}

TEST_F(Multipart, LimitsHoldAndNothingIsLeft) {
  const FormLimits limits{.parts = 3, .value_bytes = 10, .header_bytes = 100};
  const std::vector<Part> most{{"a", "0123456789"}, {"b", std::string(5000, 'x'), "b", true}, {"c", ""}};
  EXPECT_EQ(read(written(most, "b"), "b", limits), most);
  auto more = most;
  more.push_back({"d", ""});
  EXPECT_THAT(refusal(written(more, "b"), "b", limits), HasSubstr("more than 3 parts"));
  EXPECT_THAT(refusal(written({{"a", "0123456789x"}}, "b"), "b", limits), HasSubstr("longer than 10 bytes"));
  EXPECT_THAT(refusal(written({{"a", std::string(1 << 20, 'x')}}, "b"), "b", limits),
              HasSubstr("longer than 10 bytes"));
  EXPECT_THAT(refusal(written({{std::string(100, 'n'), ""}}, "b"), "b", limits),
              HasSubstr("longer than 100 bytes"));
  EXPECT_THAT(refusal(std::string(1 << 20, 'x'), "b", limits), HasSubstr("longer than 100 bytes"));
  EXPECT_THAT(refusal("--b\r\n" + std::string(1 << 20, 'x'), "b", limits),
              HasSubstr("longer than 100 bytes"));
  EXPECT_TRUE(has_no_files());
}

TEST_F(Multipart, ForeignBodiesAreRefused) {
  EXPECT_THAT(refusal("", "b"), HasSubstr("it ends within"));
  EXPECT_THAT(refusal("{\"prompt\": \"x\"}", "b"), HasSubstr("it ends within"));
  EXPECT_THAT(refusal("x" + written(kParts, "b"), "b"), HasSubstr("does not begin with its boundary"));
  EXPECT_THAT(refusal(written(kParts, "b"), "c"), HasSubstr("it ends within"));
  EXPECT_THAT(refusal(written(kParts, "b"), ""), HasSubstr("names no boundary"));
  EXPECT_THAT(refusal(written(kParts, "b"), std::string(71, 'b')), HasSubstr("names no boundary"));
  EXPECT_EQ(refusal("--b--\r\n", "b"), "");  // a form of no parts
  EXPECT_THROW(read_form(folder_ / "body", "multipart/form-data", folder_, {}), Error);
  EXPECT_THROW(read_form(folder_ / "none", "multipart/form-data; boundary=b", folder_, {}), Error);
  EXPECT_TRUE(has_no_files());
}

}  // namespace multipart_test
}  // namespace kinora::serve
