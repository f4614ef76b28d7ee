#include "judging.hpp"

#include <gmock/gmock.h>

namespace kinora::endpoint {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kStage = "caption.endpoint", kUrl = "http://h/v1/chat/completions", kKey = "sk-secret-1234",
                  kModel = "vlm";

Judgement of(long status, std::string body, const std::string& key = kKey, const char* needed = "choices") {
  Response response;
  response.status = status;
  response.body = std::move(body);
  response.retry_after = 7;
  return judged(response, {kStage, kUrl, key, kModel, needed});
}

struct Case {
  long status;
  const char *body, *problem;
  bool again, refused, paid;
};

// Problems: what happens to one question; refused: every further one would end in the same way.
TEST(Judging, TellsWhatPassesFromWhatDoesNot) {
  const Case cases[] = {
      {408, "", "status 408", true, false, false},
      {429, "slow down", "status 429: slow down", true, false, false},
      {429, R"({"error": {"code": "insufficient_quota"}})", "insufficient_quota", false, false, false},
      {500, "", "status 500", true, false, false},
      {503, "loading", "status 503: loading", true, false, false},
      {400, "bad picture", "status 400: bad picture", false, false, false},
      {400, R"({"error": {"code": "model_not_found"}})", "status 400", false, true, false},
      {401, "who", "status 401: who", false, true, false},
      {403, "", "status 403", false, true, false},
      {404, "", "status 404", false, true, false},
      {404, "The model `vlm` does not exist.", "status 404", false, true, false},
      {200, R"({"error": {"message": "overloaded", "code": 529}})", "is an error 529: overloaded", true,
       false, false},
      {200, R"({"error": {"message": "too long", "code": 400}})", "is an error 400: too long", false, false,
       false},
      {200, R"({"error": {"message": "who", "code": 401}})", "is an error 401: who", false, true, false},
      {200, R"({"error": {"message": "no route", "code": 404}})", "is an error 404: no route", false, false,
       false},
      {200, R"({"error": {"message": "The model vlm does not exist", "code": 404}})", "is an error 404",
       false, true, false},
      {200, R"({"error": {"message": "context", "type": "invalid_request_error"}})", "is an error: context",
       false, false, false},
      {200, R"({"error": "hiccup", "usage": {"prompt_tokens": 5}})", "is an error: hiccup", true, false,
       true},
      {200, R"({"choices": [], "usage": {"prompt_tokens": 5}})", "the answer has no choices", true, false,
       true},
      {200, R"({"data": []})", "must name a server that speaks OpenAI's protocol", true, false, false},
      {200, R"({"choices": [{"message")", "the answer is not a JSON object", true, false, true},
      {200, "<html>", "the answer is not a JSON object: <html>", true, false, false}};
  for (const Case& c : cases) {
    SCOPED_TRACE(std::to_string(c.status) + " " + c.body);
    const Judgement found = of(c.status, c.body);
    EXPECT_THAT(found.problem, HasSubstr(c.problem));
    EXPECT_THAT(found.problem, HasSubstr(kUrl));
    EXPECT_EQ(found.again, c.again);
    EXPECT_EQ(!found.refused.empty(), c.refused) << found.refused;
    EXPECT_EQ(found.usage.answered, c.paid ? 1 : 0);
    EXPECT_FALSE(found.answer);
    EXPECT_EQ(found.retry_after, 7);
  }
}

TEST(Judging, NamesTheOptionToChange) {
  EXPECT_THAT(of(401, "").refused, HasSubstr("the key in api_key_env is not accepted. Fix it and run again"));
  EXPECT_THAT(of(401, "", "").refused, HasSubstr("no key was sent: name the environment variable"));
  EXPECT_THAT(of(404, "").refused, HasSubstr("set base_url of caption.endpoint"));
  EXPECT_THAT(of(404, "model_not_found").refused, HasSubstr("no model 'vlm': set model of caption.endpoint"));
  for (const char* body :
       {"sk-secret-1234 is wrong", R"({"error": {"message": "sk-secr**** is wrong", "code": 401}})"}) {
    const Judgement found = of(body[0] == '{' ? 200 : 401, body);
    EXPECT_THAT(found.refused, HasSubstr("is wrong"));
    EXPECT_THAT(found.refused + found.problem, Not(HasSubstr("sk-secr")));
  }
}

TEST(Judging, AnAnswerIsOneOnceItIsComplete) {
  const auto choice = [](const char* reason, const char* text) {
    return std::string(R"({"choices": [{"finish_reason": ")") + reason + R"(", "message": {"content": ")" +
           text + R"("}}], "usage": {"prompt_tokens": 9, "completion_tokens": 4}})";
  };
  for (const auto& [reason, text, again] : {std::tuple{"stop", "A cat.", false},
                                            {"length", "A cat", false},
                                            {"error", "A c", true},
                                            {"stop", "", true}}) {
    const Judgement found = of(200, choice(reason, text));
    ASSERT_TRUE(found.answer) << reason;
    EXPECT_EQ(found.again, again) << reason << text;
    EXPECT_EQ(found.problem.empty(), !again);
    EXPECT_EQ(found.usage.prompt, 9);
    EXPECT_EQ(found.usage.completion, 4);
  }
  EXPECT_TRUE(of(200, R"({"data": [{"embedding": [1]}]})", kKey, "data").answer);
}

}  // namespace
}  // namespace kinora::endpoint
