// Reads texts, one JSON string a line, and writes each as text.tokenizer with `clean` reads it
// (tests/oracle/repair_oracle.py).
#include <iostream>
#include <string>

#include <nlohmann/json.hpp>

#include "clean.hpp"

int main() {
  std::ios::sync_with_stdio(false);
  for (std::string line; std::getline(std::cin, line);)
    std::cout << nlohmann::json(kinora::text::cleaned(nlohmann::json::parse(line).get<std::string>())).dump()
              << '\n';
}
