/** What is shown before the first message. */
export function Welcome() {
  return (
    <div className="flow welcome">
      <div>
        <img src="./icon.svg" alt="" width="56" height="56" />
        <h2>What shall we work on?</h2>
        <p>Everything that happens is kept on one timeline: every thought, call, file and source. Open the inspector to see what the model saw.</p>
      </div>
    </div>
  );
}
