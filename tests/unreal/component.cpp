// The component of bindings/unreal in a stand-in for the engine: component model.gguf "question" "wanted in the answer" microseconds
#include "RealizarChatComponent.h"

#include <cstring>

static int failures = 0;
#define EXPECT(condition) \
    if (!(condition)) failures++, std::printf("FAILED: line %d: %s\n", __LINE__, #condition)

static FString Wide(const char *text) {
    const FUTF8ToTCHAR converted(text, static_cast<int32>(std::strlen(text)));
    FString made;
    made.AppendChars(converted.Get(), converted.Length());
    return made;
}
static std::string Narrow(const FString &text) { return FTCHARToUTF8(*text).Get(); }

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    for (const char *text : {"aé€𝄞", "", "z"}) EXPECT(Narrow(Wide(text)) == text);
    URealizarChatComponent component;
    std::string answer, ended = "not";
    int pieces = 0;
    component.OnText.Add([&](const FString &piece) { answer += Narrow(piece), pieces++; });
    component.OnEnded.Add([&](const FString &error) { ended = Narrow(error); });
    auto tick = [&] { component.TickComponent(0.016f, LEVELTICK_All, nullptr); };
    EXPECT(component.PrimaryComponentTick.bCanEverTick && !component.Ask(Wide("x")) && logged == "no model is loaded");
    component.BeginPlay();
    component.ModelPath = Wide("no such file.gguf");
    EXPECT(component.begun && !component.Load() && logged.find("no such file.gguf") != std::string::npos);
    component.ModelPath = Wide(argv[1]);
    component.MaxTokens = 60;
    component.Temperature = 0;
    component.Budget = std::atoi(argv[4]);
    EXPECT(component.Load() && !component.IsAnswering());
    tick();
    EXPECT(component.Ask(Wide(argv[2])) && component.IsAnswering());
    int frames = 0;
    for (; component.IsAnswering() && frames < 1000000; frames++) tick();
    EXPECT(ended.empty() && pieces > 1 && frames >= pieces && component.ticks == frames + 1);
    EXPECT(answer.find(argv[3]) != std::string::npos);
    std::printf("answer: %s\n", answer.c_str());

    // An answer is stopped by a receiver of its text, by the host, and by the end of play.
    bool stop = true;
    component.OnText.Add([&](const FString &) { if (stop) component.Stop(); });
    EXPECT(component.Ask(Wide("Go on.")));
    while (component.IsAnswering()) tick();
    EXPECT(ended == "stopped");
    stop = false;
    EXPECT(component.Ask(Wide("Go on.")) && component.Ask(Wide("No.")) && ended == "another question was asked");
    tick();
    component.EndPlay(EEndPlayReason::Destroyed);
    EXPECT(!component.IsAnswering() && !component.begun);
    tick();
    return failures != 0;
}
