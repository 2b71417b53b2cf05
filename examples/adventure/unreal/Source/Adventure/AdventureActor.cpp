#include "AdventureActor.h"

#include "Misc/FileHelper.h"
#include "Misc/Paths.h"
#include "Serialization/JsonReader.h"
#include "Serialization/JsonSerializer.h"

/** A field that may be absent. */
static FString Field(const TSharedPtr<FJsonObject>& Object, const TCHAR* Name)
{
    FString Text;
    Object->TryGetStringField(Name, Text);
    return Text;
}

AAdventureActor::AAdventureActor()
{
    PrimaryActorTick.bCanEverTick = true;
    Chat = CreateDefaultSubobject<URealizarChatComponent>(TEXT("Chat"));
}

// --8<-- [start:engine-load]
void AAdventureActor::BeginPlay()
{
    Super::BeginPlay();
    FString Text;
    FFileHelper::LoadFileToString(Text, *(FPaths::ProjectContentDir() / TEXT("Adventure/adventure.json")));
    if (!FJsonSerializer::Deserialize(TJsonReaderFactory<>::Create(Text), Story)) return;
    Chat->OnText.AddDynamic(this, &AAdventureActor::Hear);
    Chat->OnEnded.AddDynamic(this, &AAdventureActor::End);
    Chat->ModelPath = ModelPath;
    Chat->MaxTokens = 0;
    Chat->Temperature = 0;
    // To read the file, and to prepare the model's vocabulary for schemas, take longer than a frame.
    Loading = Async(EAsyncExecution::Thread, [this] {
        return Chat->Load() && Chat->SetSchema(TEXT("{\"type\": \"boolean\"}"));
    });
}

void AAdventureActor::EndPlay(const EEndPlayReason::Type Reason)
{
    if (Loading.IsValid()) Loading.Wait();
    Super::EndPlay(Reason);
}
// --8<-- [end:engine-load]

void AAdventureActor::Enter(const FString& Name)
{
    for (const TSharedPtr<FJsonValue>& Each : Story->GetArrayField(TEXT("rooms")))
        if (Each->AsObject()->GetStringField(TEXT("name")) == Name) Room = Each->AsObject();
    OnShown.Broadcast(TEXT("\n") + Field(Room, TEXT("text")) + TEXT("\n"));
    // The texts of all persons begin with the same words, and what was computed of these is kept.
    Chat->SystemMessage = Field(Story, TEXT("world")) + TEXT(" ") + Field(Room, TEXT("person"));
    Chat->Begin();
}

// --8<-- [start:engine-ask]
/** What the person of the room may do now. The schema of the reply offers nothing else. */
TArray<FString> AAdventureActor::Actions() const
{
    TArray<FString> Names;
    for (const TSharedPtr<FJsonValue>& Each : Room->GetArrayField(TEXT("actions")))
    {
        const FString Needs = Field(Each->AsObject(), TEXT("needs")), Gives = Field(Each->AsObject(), TEXT("gives"));
        if ((Needs.IsEmpty() || Items.Contains(Needs)) && !Items.Contains(Gives))
            Names.Add(Field(Each->AsObject(), TEXT("name")));
    }
    return Names;
}

void AAdventureActor::Say(const FString& Text)
{
    if (!bLoaded) return;
    Chat->Stop();
    OnShown.Broadcast(TEXT("\n> ") + Text + TEXT("\n"));
    OnNoted.Broadcast(TEXT("> ") + Text);
    Reply = TEXT("");
    OnNoted.Broadcast(TEXT("? ") + FString::Join(Actions(), TEXT(", ")));
    const FString Offered = FString::Join(Actions(), TEXT("\", \""));
    if (Offered.IsEmpty()) return;
    const FString Held = Items.Num() == 0 ? FString(TEXT("nothing")) : FString::Join(Items, TEXT(" and "));
    const FString Question = Field(Story, TEXT("question")).Replace(TEXT("{said}"), *Text);
    if (Chat->SetSchema(Field(Story, TEXT("schema")).Replace(TEXT("{actions}"), *(TEXT("\"") + Offered + TEXT("\"")))))
        Chat->Ask(Question.Replace(TEXT("{items}"), *Held));
}
// --8<-- [end:engine-ask]

// --8<-- [start:engine-hear]
/** What is said in the reply, as much of it as has come. The schema allows no quotes in it, so that these are those of
 *  {"say":"...","action":"..."}. */
FString AAdventureActor::Said() const
{
    TArray<FString> Parts;
    return Reply.ParseIntoArray(Parts, TEXT("\""), false) > 3 ? Parts[3] : FString();
}

void AAdventureActor::Hear(const FString& Piece)
{
    const int32 Before = Said().Len();
    Reply += Piece;
    OnShown.Broadcast(Said().RightChop(Before));
}

void AAdventureActor::End(const FString& Error)
{
    TArray<FString> Parts;
    const bool bWhole = Reply.ParseIntoArray(Parts, TEXT("\""), false) == 9;
    OnNoted.Broadcast(bWhole ? TEXT("< ") + Reply : TEXT("! ") + Error);
    if (bWhole) Act(Parts[7]);
    OnNoted.Broadcast(TEXT("= ") + Field(Room, TEXT("name")) + TEXT(": ") + FString::Join(Items, TEXT(", ")));
}

void AAdventureActor::Act(const FString& Name)
{
    OnShown.Broadcast(TEXT(" (") + Name + TEXT(")\n"));
    for (const TSharedPtr<FJsonValue>& Each : Room->GetArrayField(TEXT("actions")))
    {
        if (Field(Each->AsObject(), TEXT("name")) != Name) continue;
        const FString Gives = Field(Each->AsObject(), TEXT("gives")), To = Field(Each->AsObject(), TEXT("to"));
        if (!Gives.IsEmpty()) Items.Add(Gives);
        if (!To.IsEmpty()) Enter(To);
        return;
    }
}
// --8<-- [end:engine-hear]

void AAdventureActor::Tick(float DeltaSeconds)
{
    Super::Tick(DeltaSeconds);
    if (bSpoke) Frames.Add(DeltaSeconds * 1000);
    if (Loading.IsValid() && Loading.IsReady() && !bLoaded)
    {
        bLoaded = Loading.Get();
        Loading = {};
        if (bLoaded) Enter(Field(Story, TEXT("start")));
    }
    if (bLoaded && bPlays && !bOver) GoOn();
    bSpoke = Chat->IsAnswering();
}

/** Says the next line of the script, after the reply or into it. */
void AAdventureActor::GoOn()
{
    const TArray<TSharedPtr<FJsonValue>>& Script = Story->GetArrayField(TEXT("script"));
    bool bInterrupts = false;
    if (Line < Script.Num()) Script[Line]->AsObject()->TryGetBoolField(TEXT("interrupts"), bInterrupts);
    if (Chat->IsAnswering() && !(bInterrupts && !Said().IsEmpty())) return;
    bOver = Line == Script.Num();
    if (!bOver) Say(Field(Script[Line++]->AsObject(), TEXT("say")));
}

FString AAdventureActor::FrameTimes()
{
    Frames.Sort();
    const int32 Num = Frames.Num();
    if (Num == 0) return TEXT("0 frames");
    return FString::Printf(TEXT("%d frames: %.1f, %.1f, %.1f ms"), Num, Frames[Num / 2], Frames[Num * 99 / 100],
        Frames[Num - 1]);
}
