#include "apps/serve/fields.hpp"

#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/serve/api_error.hpp"

namespace kinora::serve {
namespace fields_test {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

FormPart value_of(const std::string& name, const std::string& value) {
  return {.name = name, .value = value};
}

FormPart file_of(const std::string& name) {
  return {
      .name = name, .file_name = "a.png", .file = std::make_shared<web::TemporaryFile>(testing::TempDir())};
}

template <class Body>
std::optional<ApiError> error_of(const Body& body) {
  try {
    fields_of(body);
  } catch (const ApiError& e) {
    EXPECT_EQ(e.status, 400);
    return e;
  }
  return std::nullopt;
}

TEST(Fields, AreTheSameFromJsonAndFromAForm) {
  const json body{{"prompt", ""},
                  {"model", "m"},
                  {"negative_prompt", "a \"boat\" \xc3\xa9"},
                  {"size", "1280x704"},
                  {"seconds", 4},
                  {"fps", 8.5},
                  {"num_frames", 17},
                  {"steps", 3},
                  {"seed", 9007199254740991},
                  {"guidance_scale", 0},
                  {"lora", {{"name", "toon"}, {"scale", 0.7}}},
                  {"shots", json::parse(R"([{"prompt": "a", "seconds": 2}, {"prompt": "b"}])")}};
  std::vector<FormPart> form;
  for (const auto& [name, value] : body.items())
    form.push_back(value_of(name, value.is_string() ? value.get<std::string>() : value.dump()));
  const json wanted{{"prompt", ""},
                    {"model", "m"},
                    {"negative_prompt", "a \"boat\" \xc3\xa9"},
                    {"width", 1280},
                    {"height", 704},
                    {"seconds", 4.0},
                    {"fps", 8.5},
                    {"num_frames", 17},
                    {"steps", 3},
                    {"seed", 9007199254740991},
                    {"guidance_scale", 0.0},
                    {"lora", {{"name", "toon"}, {"scale", 0.7}}},
                    {"shots", json::array({R"({"prompt":"a","seconds":2})", R"({"prompt":"b"})"})}};
  EXPECT_EQ(fields_of(body).fields, wanted);
  EXPECT_EQ(fields_of(form).fields, wanted);
  EXPECT_TRUE(fields_of(form).fields.at("seed").is_number_integer());
}

TEST(Fields, EveryWrongValueNamesItsParameter) {
  const std::string deep(100'000, '[');
  const std::vector<std::pair<std::string, std::vector<json>>> wrong{
      {"prompt",
       {3, true, json::array(), json::object(), std::string(65'537, 'a'), "\xff", "a\xc3",
        std::string("a\0b", 3)}},
      {"model", {3, "\x80"}},
      {"negative_prompt", {json::array({"a"}), "\xed\xa0\x80"}},
      {"size",
       {"", "64", "64x", "x48", "64x48x2", "0x48", "64x0", "-1x5", "20000x48", "64X48", " 64x48", "64x48 ",
        "+6x4", "99999999999999999999x4", 64, json::array({64, 48})}},
      {"seconds",
       {"", "abc", "nan", "inf", "4s", " 4", "0x4", "1e400", "-1", -1, 0, 1e9, true, json::array({1})}},
      {"fps", {0, "0", 1001, "-0.5", "NaN"}},
      {"num_frames", {0, 1.5, "1.5", -3, "0x10", "1e9"}},
      {"steps", {0, 10001, "2.5", "many"}},
      {"seed", {-1, 0.5, 9007199254740992, "18446744073709551615", "1e300"}},
      {"guidance_scale", {-0.1, 1001, "high"}},
      {"strength", {0, 1.5, "some"}},
      {"lora",
       {3,
        json::array(),
        json::object(),
        {{"scale", 1}},
        {{"name", 3}},
        {{"name", "a"}, {"path", "/b"}},
        {{"name", "a"}, {"scale", 101}},
        "{",
        "{}",
        R"({"name": "a", "scale": "much"})",
        "a=2"}},
      {"shots",
       {json::array(), json::object(), 3, json::array({1}), json::array({"a"}), "", "[]", "x", "[1]", "{",
        R"([{"prompt": "a\u0000b"}])", deep, "[{\"a\":" + deep + std::string(100'000, ']') + "}]"}}};
  for (const auto& [name, values] : wrong)
    for (const auto& value : values) {
      json body{{"prompt", "x"}};
      body[name] = value;
      const auto of_json = error_of(body);
      ASSERT_TRUE(of_json) << name;
      EXPECT_EQ(of_json->param, name);
      EXPECT_THAT(of_json->what(), StartsWith(name + ": expected "));
      if (!value.is_string()) continue;
      const auto of_form = error_of(std::vector{value_of("prompt", "x"), value_of(name, value)});
      ASSERT_TRUE(of_form) << name;
      EXPECT_EQ(of_form->param, name);
      EXPECT_STREQ(of_form->what(), of_json->what());
    }
}

TEST(Fields, ALoraIsANameOrAnObject) {
  const json toon{{"name", "toon"}}, half{{"name", "toon"}, {"scale", 0.5}};
  EXPECT_EQ(fields_of(json{{"prompt", "x"}, {"lora", "toon"}}).fields.at("lora"), toon);
  EXPECT_EQ(fields_of(json{{"prompt", "x"}, {"lora", ""}}).fields.at("lora"), (json{{"name", ""}}));
  const auto of_form = [](std::vector<FormPart> parts) {
    parts.push_back(value_of("prompt", "x"));
    return fields_of(parts).fields.at("lora");
  };
  EXPECT_EQ(of_form({value_of("lora", "toon")}), toon);
  EXPECT_EQ(of_form({value_of("lora", R"({"name": "toon", "scale": 0.5})")}), half);
  EXPECT_EQ(of_form({value_of("lora[scale]", "0.5"), value_of("lora[name]", "toon")}), half);
  const auto e = error_of(std::vector{value_of("prompt", "x"), value_of("lora[scale]", "0.5")});
  ASSERT_TRUE(e);
  EXPECT_EQ(e->param, "lora");
}

TEST(Fields, TheLimitsThemselvesAreTaken) {
  const json least{{"prompt", ""},    {"size", "1x1"},  {"seconds", 0.01}, {"fps", "0.01"},
                   {"num_frames", 1}, {"steps", "1e0"}, {"seed", 0},       {"guidance_scale", "0"}};
  EXPECT_EQ(fields_of(least).fields.at("steps"), 1);
  const json most{{"prompt", std::string(65'536, 'a')},
                  {"size", "16384x16384"},
                  {"seconds", 1e6},
                  {"fps", 1000},
                  {"num_frames", 1'000'000},
                  {"steps", 10'000},
                  {"guidance_scale", 1000}};
  EXPECT_EQ(fields_of(most).fields.at("height"), 16384);
}

TEST(Fields, AnUnknownParameterSuggestsTheNearest) {
  for (const auto& [given, meant] :
       std::vector<std::pair<std::string, std::string>>{{"sead", "seed"},
                                                        {"num-frames", "num_frames"},
                                                        {"guidence_scale", "guidance_scale"},
                                                        {"Prompt", "prompt"}}) {
    const auto e = error_of(json{{"prompt", "x"}, {given, nullptr}});
    ASSERT_TRUE(e) << given;
    EXPECT_EQ(e->code, "unknown_parameter");
    EXPECT_EQ(e->param, given);
    EXPECT_THAT(e->what(), HasSubstr("'" + given + "', did you mean '" + meant + "'?"));
  }
  const auto e = error_of(std::vector{value_of("\xff", "x")});
  ASSERT_TRUE(e);
  EXPECT_THAT(answer_of(*e).body, AllOf(HasSubstr("unknown parameter"), HasSubstr("\xef\xbf\xbd")));
}

TEST(Fields, NullIsLeftOutAndThePromptIsRequired) {
  EXPECT_EQ(fields_of(json{{"prompt", "x"}, {"seed", nullptr}}).fields, (json{{"prompt", "x"}}));
  for (const json& body : {json::object(), json{{"prompt", nullptr}}, json{{"seed", 1}}}) {
    const auto e = error_of(body);
    ASSERT_TRUE(e) << body;
    EXPECT_EQ(e->param, "prompt");
    EXPECT_EQ(e->code, "missing");
  }
  EXPECT_FALSE(error_of(json::parse(R"({"shots": [{"prompt": "a"}]})")));
  EXPECT_FALSE(error_of(json::parse(R"({"prompt": "", "shots": [{"prompt": "a"}]})")));
  const auto both = error_of(json::parse(R"({"prompt": "b", "shots": [{"prompt": "a"}]})"));
  ASSERT_TRUE(both);
  EXPECT_EQ(both->param, "prompt");
  for (const json& body : {json::array(), json("x"), json(), json(json::value_t::discarded)}) {
    const auto e = error_of(body);
    ASSERT_TRUE(e);
    EXPECT_EQ(e->code, "invalid_json");
  }
}

TEST(Fields, OneFileIsTheReference) {
  const auto file = file_of("input_reference");
  const auto given = fields_of(std::vector{value_of("prompt", "x"), file});
  ASSERT_EQ(given.files.size(), 1U);
  EXPECT_EQ(given.files[0].field, "input_reference");
  EXPECT_EQ(given.files[0].file, file.file->path());
  EXPECT_EQ(given.fields, (json{{"prompt", "x"}}));
  const auto refused = [](const std::vector<FormPart>& form) {
    const auto e = error_of(form);
    return e ? e->param + "|" + e->what() : "";
  };
  EXPECT_THAT(refused({value_of("prompt", "x"), file, file}),
              StartsWith("input_reference|input_reference: expected one file"));
  EXPECT_THAT(refused({file_of("prompt")}), StartsWith("prompt|prompt: expected a value"));
  EXPECT_THAT(refused({value_of("prompt", "x"), value_of("input_reference", "http://x/a.png")}),
              StartsWith("input_reference|input_reference: expected a file"));
  EXPECT_EQ(fields_of(std::vector{value_of("prompt", "x"), file_of("video")}, "video").files.at(0).field,
            "input_reference");
  EXPECT_THAT(refused({value_of("prompt", "x"), file_of("video")}),
              StartsWith("video|video: expected a value"));
  for (const char* name : {"video", "video[id]"}) {
    const auto part = value_of(name, std::string(name) == "video" ? R"({"id": "video_a"})" : "video_a");
    EXPECT_EQ(fields_of(std::vector{value_of("prompt", "x"), part}, "video").video, "video_a");
    try {
      fields_of(std::vector{value_of("prompt", "x"), file_of("video"), part}, "video");
      ADD_FAILURE() << name;
    } catch (const ApiError& both) {
      EXPECT_EQ(both.param, "video");
    }
  }
  try {
    fields_of(json{{"prompt", "x"}, {"vidoe", "x"}}, "video");
    ADD_FAILURE();
  } catch (const ApiError& unknown) {
    EXPECT_THAT(unknown.what(), HasSubstr("did you mean 'video'"));
    EXPECT_THAT(unknown.what(), Not(HasSubstr("input_reference")));
  }
  const auto e = error_of(json{{"prompt", "x"}, {"input_reference", "x"}});
  ASSERT_TRUE(e);
  EXPECT_EQ(e->param, "input_reference");
}

}  // namespace fields_test
}  // namespace kinora::serve
