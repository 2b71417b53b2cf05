// The component of bindings/unreal in a stand-in for the engine:
//   component model.gguf "question" "wanted in what is printed" microseconds "system message" reasoning temperature
// The last three are for its properties; "story" after them: the model is the tiny one, and is talked to at length.
#include "Engine/TextureRenderTarget2D.h"
#include "RealizarChatComponent.h"

#include <cstring>
#include <utility>

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
    if (argc < 8) return 2;
    for (const char *text : {"aé€𝄞", "", "z"}) EXPECT(Narrow(Wide(text)) == text);
    URealizarChatComponent component;
    std::string answer, reasoning, ended = "not";
    int pieces = 0;
    component.OnText.Add([&](const FString &piece) { answer += Narrow(piece), pieces++; });
    component.OnReasoning.Add([&](const FString &piece) { reasoning += Narrow(piece); });
    component.OnEnded.Add([&](const FString &error) { ended = Narrow(error); });
    auto tick = [&] { component.TickComponent(0.016f, LEVELTICK_All, nullptr); };
    auto whole = [&](const char *question) {
        answer.clear(), ended = "not";
        EXPECT(component.Ask(Wide(question)));
        while (component.IsAnswering()) tick();
        EXPECT(ended.empty() && !answer.empty());
    };
    EXPECT(component.PrimaryComponentTick.bCanEverTick && !component.Ask(Wide("x")) && logged == "no model is loaded");
    EXPECT(!component.Begin() && !component.SetSchema(Wide("{}")));
    component.BeginPlay();
    component.ModelPath = Wide("no such file.gguf");
    EXPECT(component.begun && !component.Load() && logged.find("no such file.gguf") != std::string::npos);
    component.Threads = -1;
    EXPECT(!component.Load() && logged == "Threads is -1; it must be at least 0");
    component.Threads = 1;
    component.ModelPath = Wide(argv[1]);
    component.Device = -1;
    EXPECT(!component.Load() && logged == "Device is -1; it must be at least 0");
    component.Device = 1;
    EXPECT(component.Load());
    component.Device = 99; // the model that is loaded stays
    EXPECT(!component.Load() && logged.find("device 99") != std::string::npos && component.Begin());
    component.Device = 1;
    component.MaxTokens = 60;
    component.SystemMessage = Wide(argv[5]);
    component.ReasoningTokens = std::atoi(argv[6]);
    component.Temperature = static_cast<float>(std::atof(argv[7]));
    component.Budget = std::atoi(argv[4]);
    int frames = 0;
    EXPECT(component.Load() && !component.IsAnswering());
    component.MaxTokens = -1;
    EXPECT(!component.Ask(Wide("x")) && logged == "MaxTokens is -1; it must be at least 0" && !component.IsAnswering());
    component.MaxTokens = 60;
    std::swap(component.Budget, frames);
    EXPECT(!component.Ask(Wide("x")) && logged == "Budget is 0; it must be at least 1");
    std::swap(component.Budget, frames);
    tick();
    EXPECT(component.Ask(Wide(argv[2])) && component.IsAnswering());
    for (frames = 0; component.IsAnswering() && frames < 1000000; frames++) tick();
    EXPECT(ended.empty() && pieces > 1 && frames >= pieces && component.ticks == frames + 1);
    const std::string printed = "answer: \"" + answer + "\"\nreasoning: \"" + reasoning + "\"";
    EXPECT(printed.find(argv[3]) != std::string::npos);
    std::puts(printed.c_str());

    bool again = false;
    if (argc > 8) {
        // What was said of an answer that is stopped stays: the next one goes on with it.
        const std::string story = answer;
        answer.clear();
        EXPECT(component.Begin() && component.Ask(Wide(argv[2])));
        for (pieces = 0; pieces < 3 && component.IsAnswering();) tick();
        component.Stop();
        const std::string said = answer;
        whole("");
        EXPECT((said + answer).compare(0, story.size(), story) == 0 && said.size() < story.size());

        // A question of whose answer nothing was said is taken back.
        EXPECT(component.Begin() && component.Ask(Wide("The dog")));
        whole(argv[2]);
        EXPECT(answer == story);

        // A receiver of the end asks, and the one who ended it is told.
        auto ask_again = [&](const FString &) { if (std::exchange(again, false)) component.Ask(Wide(argv[2])); };
        component.OnEnded.Add(ask_again), component.OnText.Add(ask_again);
        EXPECT(component.Begin() && component.Ask(Wide("The dog")));
        again = true, answer.clear();
        EXPECT(!component.Ask(Wide("The cat")) && logged == "another question was asked");
        while (component.IsAnswering()) tick();
        EXPECT(ended.empty() && answer == story);

        // A receiver of the last piece asks: the end of the answer before is not that of the one that it asked for.
        component.Budget = 100000000;
        EXPECT(component.Begin() && component.Ask(Wide("The dog")));
        again = true;
        tick();
        EXPECT(component.IsAnswering() && ended == "another question was asked");
        tick();
        EXPECT(!component.IsAnswering() && ended.empty());

        // An answer obeys a schema, until none is wanted.
        EXPECT(!component.SetSchema(Wide("{\"type\": \"none\"}")) && logged.find("none") != std::string::npos);
        EXPECT(component.SetSchema(Wide("{\"enum\": [\"yes\", \"no\"]}")) && component.Begin());
        whole(argv[2]);
        EXPECT(answer == "\"yes\"" || answer == "\"no\"");
        EXPECT(component.SetSchema(FString()) && component.Begin());
        whole(argv[2]);
        EXPECT(answer == story);

        // Questions about a render target, whose encoding takes ticks of its own; the first of them is stopped in these.
        if (const char *encoder = std::getenv("ENCODER")) {
            UTextureRenderTarget2D target;
            target.SizeX = 60, target.SizeY = 40;
            EXPECT(!component.AskAboutTarget(Wide(argv[2]), nullptr) && !component.AskAboutTarget(Wide(argv[2]), &target));
            target.resource.pixels.SetNum(60 * 40);
            for (int32 i = 0; i < 60 * 40; i++) target.resource.pixels[i] = {static_cast<uint8>(i), 90, 200, 255};
            EXPECT(!component.AskAboutTarget(Wide(argv[2]), &target) && logged == "no encoder of pictures is loaded");
            EXPECT(!component.LoadEncoder(Wide("no such file.gguf")) && component.LoadEncoder(Wide(encoder)) && component.Begin());
            EXPECT(!component.AskAbout(Wide(argv[2]), target.resource.pixels, 60, 39) && !component.IsAnswering());
            component.Budget = 1;
            EXPECT(component.AskAboutTarget(Wide("\"x\\"), &target) && component.IsAnswering());
            component.Stop();
            EXPECT(ended == "stopped" && component.Begin());
            std::string about;
            for (int i = 0; i < 2; i++) {
                answer.clear(), ended = "not";
                EXPECT(component.Begin() && component.AskAboutTarget(Wide(argv[2]), &target));
                int ticks = 0;
                for (; component.IsAnswering() && answer.empty(); ticks++) tick();
                component.Budget = 100000000;
                while (component.IsAnswering()) tick();
                EXPECT(ended.empty() && !answer.empty() && answer != story && (i == 1 || ticks > 2));
                EXPECT(i == 0 || answer == about);
                about = answer;
            }
            whole("Then");
            EXPECT(component.Begin());
            whole(argv[2]);
            EXPECT(answer == story);
        }

        // Old turns are forgotten where the context has no room for them.
        for (int i = 0; i < 20; i++) whole(argv[2]);
    }

    // An answer is stopped by a receiver of its text, by the host, and by the end of play.
    bool stop = true;
    EXPECT(component.Begin());
    component.OnText.Add([&](const FString &) { if (stop) component.Stop(); });
    EXPECT(component.Ask(Wide("Go on.")));
    while (component.IsAnswering()) tick();
    EXPECT(ended == "stopped");
    stop = false;
    EXPECT(component.Ask(Wide("Go on.")) && component.Ask(Wide("No.")) && ended == "another question was asked");
    tick();
    // The play ends within an event of the answer.
    bool end = true;
    auto end_play = [&](const FString &) { if (std::exchange(end, false)) component.EndPlay(EEndPlayReason::Destroyed); };
    component.OnText.Add(end_play), component.OnReasoning.Add(end_play);
    EXPECT(component.Begin() && component.Ask(Wide(argv[2])));
    while (component.IsAnswering()) tick();
    EXPECT(!end && !component.IsAnswering() && !component.begun);
    tick();
    EXPECT(!component.Ask(Wide("x")) && logged == "no model is loaded");
    return failures != 0;
}
