// Reads texts, one JSON string a line, and writes each as text.tokenizer with `clean` reads it
// (tests/oracle/repair_oracle.py); with --unescape, with its character references resolved once
// (tests/oracle/html_entities.py).
#include <iostream>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "clean.hpp"

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  const bool unescape = argc > 1 && std::string_view(argv[1]) == "--unescape";
  for (std::string line; std::getline(std::cin, line);) {
    const auto text = nlohmann::json::parse(line).get<std::string>();
    std::cout << nlohmann::json(unescape ? kinora::text::unescaped(text) : kinora::text::cleaned(text)).dump()
              << '\n';
  }
}
