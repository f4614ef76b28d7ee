#include "answers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "markup.hpp"

namespace kinora::endpoint {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), KINORA_ERROR_DATA);
    return e.what();
  }
  return "";
}

Json answer(const std::string& message, const char* reason = "stop") {
  return Json::parse(R"({"choices":[{"index":0,"finish_reason":")" + std::string(reason) + R"(","message":)" +
                     message + R"(}],"usage":{"prompt_tokens":12,"completion_tokens":5}})");
}

TEST(Answers, GivesTheTextInWhateverFormItComes) {
  const struct {
    const char *message, *text;
  } cases[] = {{R"({"content":"  A boat.\n"})", "A boat."},
               {R"({"content":[{"type":"text","text":"A "},{"type":"text","text":"boat."}]})", "A boat."},
               {R"({"content":"<think>What is it?</think>\n\nA boat."})", "A boat."},
               {R"({"content":"A boat.","refusal":null})", "A boat."}};
  for (const auto& c : cases) EXPECT_EQ(chat_of(answer(c.message)).text, c.text) << c.message;
  EXPECT_FALSE(chat_of(answer(R"({"content":"x"})")).cut);
  EXPECT_TRUE(chat_of(answer(R"({"content":"x"})", "length")).cut);
}

TEST(Markup, OnlyWhatIsSaidToTheReaderRemains) {
  const struct {
    const char *text, *said;
  } cases[] = {
      {"A boat.", "A boat."},
      {"What is it?\n</think>\n\nA boat.", "A boat."},  // the opening mark was in the prompt
      {"<think>One.</think>A boat <think>Two.</think>sails.", "A boat sails."},
      {"One.</think>A boat <think>Two.</think>sails.", "A boat sails."},
      {"<think>Say </think> or not? </think>A boat.", "A boat."},
      {"<think>a <think>b</think> c</think>A boat.", "A boat."},
      {"<THINK>x</THINK>A boat.", "A boat."},
      {"<thinking>x</thinking>\nA boat.", "A boat."},
      {"<seed:think>x</seed:think>A boat.", "A boat."},
      {"\xe2\x97\x81think\xe2\x96\xb7x\xe2\x97\x81/think\xe2\x96\xb7 A boat.", "A boat."},  // Kimi
      {"[THINK]x[/THINK]A boat.", "A boat."},
      {"<|START_THINKING|>x<|END_THINKING|><|START_RESPONSE|>A boat.<|END_RESPONSE|>", "A boat."},
      {"<|begin_of_thought|>x<|end_of_thought|><|begin_of_solution|>A boat.<|end_of_solution|>", "A boat."},
      {"<think>x</think><answer>A boat.</answer>", "A boat."},
      {"I look. <answer>A boat.</answer><|im_end|>", "A boat."},
      {"A boat.</answer>", "A boat."},
      {"<|channel|>analysis<|message|>x<|end|><|start|>assistant<|channel|>final<|message|>A boat.<|return|>",
       "A boat."},
      {"analysisWe need a caption.assistantfinalA boat.", "A boat."},
      {"A boat.<|im_end|>", "A boat."},
      {"A boat.<|im_end|>\n<|im_start|>user\nAnd now?", "A boat."},
      {"<|im_start|>assistant\nA boat.<|im_end|><|endoftext|>", "A boat."},
      {"<|start_header_id|>assistant<|end_header_id|>\n\nA boat.<|eot_id|>", "A boat."},
      {"<s> A boat.</s>", "A boat."},
      {"A boat.<end_of_turn>\n", "A boat."},
      {"A boat.<\xef\xbd\x9c"
       "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>",
       "A boat."},
      {"A boat.<end_of_utterance>", "A boat."},
      {"A boat.[/INST]", "A boat."},
      {"A boat.<|user|>", "A boat."},
      {"A boat.<my_own_end>", "A boat."},
      {"A boat named <|begin_of_box|>Mary<|end_of_box|>.", "A boat named Mary."},
      // Texts that only look like marks stay.
      {"[Music] A sign says [END] and a < b > c, <3.", "[Music] A sign says [END] and a < b > c, <3."},
      {"<b>A boat</b>", "<b>A boat</b>"},
      {R"({"labels": ["boat"]})", R"({"labels": ["boat"]})"},
      {"A code editor shows the tag `<response>` in an XML file, and a cursor blinks.",
       "A code editor shows the tag `<response>` in an XML file, and a cursor blinks."},
      {"A code editor shows <answer>42</answer>", "A code editor shows <answer>42</answer>"},
      {"<response> is the first line of a file.", "<response> is the first line of a file."},
      {"<caption>A boat.</caption> stands in a file.", "<caption>A boat.</caption> stands in a file."},
      {"A file:\n<response>\nHello\n</response>\nA cursor blinks.",
       "A file:\n<response>\nHello\n</response>\nA cursor blinks."},
      {"A slide says <s> for struck text. The speaker smiles.",
       "A slide says <s> for struck text. The speaker smiles."},
      {"A page shows <s>5 $</s> and 3 $.", "A page shows <s>5 $</s> and 3 $."},
      {"A page shows <s>5 $</s>", "A page shows <s>5 $</s>"},
      {"the board reads [EOS] in red", "the board reads [EOS] in red"},
      {"A slide lists <bos> <eos> <pad> <s> and <end_of_turn> as tokens.",
       "A slide lists <bos> <eos> <pad> <s> and <end_of_turn> as tokens."},
      {"A sign points to <Exit>", "A sign points to <Exit>"},
      {"A page reads Hello.</p>", "A page reads Hello.</p>"},
      {"A form with <reason> to fill in.", "A form with <reason> to fill in."},
      {"<reason> is a field of a form.", "<reason> is a field of a form."},
      {"A form:\n<reason>Too late</reason> is its first line.",
       "A form:\n<reason>Too late</reason> is its first line."},
      {"A speaker explains the <think> token.", "A speaker explains the <think> token."},
      {"A slide puts <think> and </think> around it.", "A slide puts <think> and </think> around it."},
      {"A slide shows `</think>` and \"<|im_end|>\" in red.",
       "A slide shows `</think>` and \"<|im_end|>\" in red."},
      {R"({"keep":true,"reason":"</think>"})", R"({"keep":true,"reason":"</think>"})"},
      {"A page documents the <tool_call> tag.", "A page documents the <tool_call> tag."},
      {"A feed begins with <channel> and <unused7>.", "A feed begins with <channel> and <unused7>."},
      // Marks in the form and the place of templates.
      {"<reasoning_content>x</reasoning_content>A boat.", "A boat."},
      {"<thought_process>\nx\n</thought_process>\nA boat.", "A boat."},
      {"<cot>x</cot>A boat.", "A boat."},
      {"<think >x</think >A boat.", "A boat."},
      {"<reason>x</reason>A boat.", "A boat."},
      {"A boat.\n<reason>\nx\n</reason>\nIt sails.", "A boat.\n\nIt sails."},
      {"say \"A boat.\"</think>\"A boat.\"", "\"A boat.\""},
      {"<unused94>thought\nx<unused95>A boat.", "A boat."},
      {"x<unused95>A boat.", "A boat."},
      {"<|channel>thought\nx<channel|>A boat.<turn|>", "A boat."},
      {"<caption>A boat.</caption>", "A boat."},
      {"Here it is:\n<caption>\nA boat.\n</caption>\n", "A boat."},
      {"<answer>A boat.</answer> I hope this helps!", "A boat."},
      {"<answer><think>x</think>A boat.</answer>", "A boat."},
      {"<answer><answer>A boat.</answer></answer>", "A boat."},
      {"<|START_RESPONSE|>A boat.", "A boat."},
      {"A boat [EOS]", "A boat"},
      {"A boat.<eos><pad><pad>", "A boat."},
      {"A boat.</s><s>[INST] And now? [/INST]", "A boat."},
      {"<start_of_turn>model\nA boat.<end_of_turn>\n<start_of_turn>user\nAnd now?", "A boat."},
      // Nothing that is surely a caption: it is asked again.
      {"<tool_call>\n{\"name\": \"zoom\"}\n</tool_call>", ""},
      {"Let me look. <tool_call>{\"name\": \"zoom\"}</tool_call>", ""},
      {"<think>x</think><|tool_calls_section_begin|>zoom", ""},
      {"[TOOL_CALLS][{\"name\": \"zoom\"}]", ""},
      {"<answer>A boat", ""},
      {"<answer><think>x</answer></think>y", ""},
      {"A boat. <think>Hm.</think> It sails.", ""},
      {"A slide reads </think> in white.", ""},
      {"A boat.\n<think>x", ""},
      {"<unused94>thought\nx", ""},
      // Thoughts that never end.
      {"<think>x", ""},
      {"A boat. <think>x", ""},
      {"<think>x</think>", ""},
      {"<|channel|>analysis<|message|>x", ""},
      {"<|im_end|>", ""},
  };
  for (const auto& c : cases) EXPECT_EQ(said_to_reader(c.text), c.said) << c.text;
}

TEST(Answers, WhatIsNotKnownToBeCompleteIsNot) {
  const std::string half = R"({"content":"A boat on"})";
  for (const char* reason : {"stop", "STOP", "eos", "eos_token", "stop_sequence", "end_turn"}) {
    EXPECT_EQ(chat_of(answer(half, reason)).text, "A boat on");
    EXPECT_EQ(worth_another_try(answer(half, reason)), "");
  }
  for (const char* reason : {"error", "abort", "network_error", "tool_calls", "", "something_new"}) {
    EXPECT_THAT(worth_another_try(answer(half, reason)), HasSubstr("not complete")) << reason;
    EXPECT_THAT(error_of([&] { chat_of(answer(half, reason)); }), HasSubstr("not complete")) << reason;
  }
  for (const char* reason : {"length", "max_tokens", "MAX_TOKENS", "model_length"}) {
    EXPECT_TRUE(chat_of(answer(half, reason)).cut) << reason;
    EXPECT_EQ(worth_another_try(answer(half, reason)), "") << "it would be cut again";
  }
  for (const char* reason : {"content_filter", "SAFETY", "content_filter: PROHIBITED_CONTENT"}) {
    EXPECT_THAT(error_of([&] { chat_of(answer(half, reason)); }), HasSubstr("content filter"));
    EXPECT_EQ(worth_another_try(answer(half, reason)), "");
  }
  for (const char* odd : {R"({"choices":[{"message":{"content":"A boat on"}}]})",
                          R"({"choices":[{"message":{"content":"A boat on"},"finish_reason":null}]})"})
    EXPECT_THAT(error_of([&] { chat_of(Json::parse(odd)); }), HasSubstr("finish_reason is missing"));
  const Json told = Json::parse(
      R"({"choices":[{"message":{"content":"A"},"finish_reason":"error",
      "error":{"code":502,"message":"upstream is gone"}}]})");
  EXPECT_THAT(worth_another_try(told), HasSubstr("\"error\": upstream is gone"));
}

TEST(Answers, ErrorsOfStatus200HaveTheServersWordsAndItsCode) {
  const auto of = [](const char* json) { return error_in(Json::parse(json)); };
  EXPECT_EQ(of(R"({"error":{"message":"busy","code":429}})")->words, "busy");
  EXPECT_EQ(of(R"({"error":{"message":"busy","code":429}})")->status, 429);
  EXPECT_EQ(of(R"({"error":{"message":"busy","code":"503"}})")->status, 503);
  EXPECT_EQ(of(R"({"error":"out of memory"})")->words, "out of memory");
  EXPECT_EQ(of(R"({"error":"out of memory"})")->status, 0);
  EXPECT_TRUE(of(R"({"error":{"message":"too long","type":"invalid_request_error"}})")->is_of_request);
  EXPECT_TRUE(of(R"({"error":{"message":"pay","code":"insufficient_quota"}})")->is_of_request);
  for (const char* none : {"{}", R"({"error":null})", R"({"error":""})", R"({"error":{}})", "[1]"})
    EXPECT_FALSE(of(none)) << none;
}

TEST(Answers, NanIsNullOutsideOfTexts) {
  const Json json =
      parsed(R"({"choices": [{"logprobs": [NaN, -Infinity, Infinity, -1]}], "text": "NaN \" Infinity"})");
  ASSERT_TRUE(json.is_object());
  EXPECT_EQ(json["choices"][0]["logprobs"], Json::parse("[null, null, null, -1]"));
  EXPECT_EQ(json["text"], "NaN \" Infinity");
  EXPECT_TRUE(parsed("{\"a\": Nan}").is_discarded());
  EXPECT_TRUE(parsed("NaNs\"").is_discarded());
}

TEST(Answers, SaysWhyThereIsNoText) {
  EXPECT_THAT(error_of([] { chat_of(answer(R"({"content":null,"refusal":"I cannot look at that."})")); }),
              HasSubstr("refuses: I cannot look at that."));
  EXPECT_THAT(error_of([] { chat_of(answer(R"({"content":"x"})", "content_filter")); }),
              HasSubstr("content filter"));
  EXPECT_THAT(error_of([] { chat_of(answer(R"({"content":" "})")); }), HasSubstr("empty"));
  EXPECT_THAT(error_of([] { chat_of(answer(R"({"content":""})", "length")); }),
              HasSubstr("raise max_tokens"));
  EXPECT_THAT(error_of([] { chat_of(answer(R"({"content":"<think>for ever and ever"})", "length")); }),
              HasSubstr("raise max_tokens"));
  for (const char* odd : {"{}", R"({"choices":[]})", R"({"choices":{}})", R"({"choices":[7]})",
                          R"({"choices":[{"message":[]}]})",
                          R"({"choices":[{"message":{"content":{"a":1}},"finish_reason":"stop"}]})"})
    EXPECT_NE(error_of([&] { chat_of(Json::parse(odd)); }), "") << odd;
}

TEST(Answers, IsBlankIfTheModelEndedByItselfWithoutText) {
  for (const char* message : {R"({"content":""})", R"({"content":" \n"})", R"({"content":null})",
                              R"({"content":[]})", R"({"content":"<think>A boat?</think>\n"})", "{}"})
    EXPECT_EQ(worth_another_try(answer(message)), "the answer has no text") << message;
  EXPECT_EQ(worth_another_try(answer(R"({"content":"A boat."})")), "");
  EXPECT_EQ(worth_another_try(answer(R"({"content":null,"refusal":"No."})")), "") << "it would refuse again";
  EXPECT_EQ(worth_another_try(answer(R"({"content":""})", "length")), "") << "it would be cut again";
  EXPECT_EQ(worth_another_try(answer(R"({"content":""})", "content_filter")), "");
  EXPECT_EQ(worth_another_try(Json::parse(R"({"data":[{"embedding":[1]}]})")), "");
}

TEST(Answers, KnowsHowServersSayThatThereIsNoModel) {
  const std::string model = "Org/Model-7B";
  for (
      const auto& [status, body] :
      {std::pair{
           404,
           R"({"error":{"message":"The model `Org/Model-7B` does not exist.","type":"NotFoundError"}})"},  // vLLM
       {404, R"({"error":{"message":"model 'org/model-7b' not found"}})"},        // Ollama
       {404, R"({"error":{"message":"no access","code":"model_not_found"}})"},    // OpenAI
       {400, R"({"error":{"message":"Model Not Exist"}})"},                       // DeepSeek
       {400, R"({"error":{"message":"Org/Model-7B is not a valid model ID"}})"},  // OpenRouter
       {400, R"({"message":"Invalid model: Org/Model-7B","code":"1500"})"}})      // Mistral
    EXPECT_TRUE(says_no_model(status, body, model)) << body;
  for (const auto& [status, body] :
       {std::pair{400, R"({"error":{"message":"This model's maximum context length is 8192 tokens."}})"},
        {400, R"({"error":{"message":"Org/Model-7B: the picture is too large"}})"},
        {404, R"({"detail":"Not Found"})"},
        {500, R"({"error":{"code":"model_not_found"}})"},
        {200, R"({"error":{"code":"model_not_found"}})"}})
    EXPECT_FALSE(says_no_model(status, body, model)) << body;
}

TEST(Answers, CountsTokensAndForgivesTheirAbsence) {
  EXPECT_EQ(usage_of(answer(R"({"content":"x"})")).prompt, 12);
  EXPECT_EQ(usage_of(answer(R"({"content":"x"})")).completion, 5);
  for (const char* odd :
       {"{}", R"({"usage":null})", R"({"usage":{"prompt_tokens":-3,"completion_tokens":"9"}})",
        R"({"usage":{"prompt_tokens":1.5}})"})
    EXPECT_EQ(usage_of(Json::parse(odd)).prompt + usage_of(Json::parse(odd)).completion, 0) << odd;
}

TEST(Answers, AnEmbeddingHasLengthOne) {
  const auto v = embedding_of(Json::parse(R"({"data":[{"embedding":[3,0,-4.0]}]})"));
  ASSERT_EQ(v.size(), 3u);
  EXPECT_FLOAT_EQ(v[0], 0.6F);
  EXPECT_FLOAT_EQ(v[1], 0);
  EXPECT_FLOAT_EQ(v[2], -0.8F);
  for (const char* odd :
       {"{}", R"({"data":[]})", R"({"data":[{"embedding":"AAAA"}]})", R"({"data":[{"embedding":[]}]})",
        R"({"data":[{"embedding":[0,0]}]})", R"({"data":[{"embedding":[1,null]}]})",
        R"({"data":[{"embedding":[1e300,1e300]}]})", R"({"data":[{"embedding":[1]},{"embedding":[1]}]})"})
    EXPECT_NE(error_of([&] { embedding_of(Json::parse(odd)); }), "") << odd;
}

TEST(Answers, FindsTheObjectInAText) {
  for (const char* text : {R"({"keep": true})", "```json\n{\"keep\": true}\n```",
                           R"(Here it is: {"keep": true}. Anything else?)"})
    EXPECT_EQ(object_in(text).at("keep"), true) << text;
  for (const char* text : {"", "yes", "{", "}{", "{keep: yes}", "[1, 2]"})
    EXPECT_NE(error_of([&] { object_in(text); }), "") << text;
}

TEST(Answers, NestedBeyondReasonIsNoAnswer) {
  const auto nested = [](size_t n) {
    return "{\"choices\":" + std::string(n, '[') + std::string(n, ']') + "}";
  };
  EXPECT_FALSE(parsed(nested(20)).is_discarded());
  EXPECT_TRUE(parsed(nested(500000)).is_discarded());
  EXPECT_NE(error_of([&] { object_in(nested(500000)); }), "");
}

TEST(ErrorText, IsShortOneLineAndValid) {
  EXPECT_EQ(shown("a\r\n\tb\x01  c", ""), "a b c");
  EXPECT_EQ(shown("", ""), "");
  const std::string umlauts = [] {
    std::string s;
    for (int i = 0; i < 300; ++i) s += "\xC3\xBC";
    return s;
  }();
  EXPECT_EQ(shown(umlauts, ""), umlauts.substr(0, 400) + "...");
  EXPECT_EQ(shown("a\xFFz", ""), "a\xEF\xBF\xBDz");
}

TEST(ErrorText, HidesTheKeyHoweverMuchOfItIsRepeated) {
  const std::string key = "sk-proj-Abcdef0123456789";
  for (const std::string body : {"Incorrect API key provided: sk-proj-Abcdef0123456789. Find it",
                                 "Incorrect API key provided: sk-pro********6789. Find it",
                                 "{\"auth\":\"Bearer sk-proj-Abcdef0123456789\"}"}) {
    EXPECT_THAT(shown(body, key), HasSubstr("[key]")) << body;
    EXPECT_THAT(shown(body, key), Not(HasSubstr("sk-pro"))) << body;
    EXPECT_THAT(shown(body, key), Not(HasSubstr("6789"))) << body;
  }
  // No part of the key remains where the text is cut off.
  for (size_t n = 150; n < 230; ++n)
    EXPECT_THAT(shown(std::string(n, ' ') + "x " + std::string(n, 'y') + " " + key, key),
                Not(HasSubstr("sk-")))
        << n;
}

}  // namespace
}  // namespace kinora::endpoint
